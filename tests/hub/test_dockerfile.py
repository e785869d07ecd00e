"""What a push changes in a Dockerfile."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.hub.dockerfile import with_base_image, with_web_page

SHOWN = "ENV ENABLE_WEB_INTERFACE=true"
HIDDEN = "ENV ENABLE_WEB_INTERFACE=false"
LINES = st.lists(
    st.sampled_from(
        ["FROM a", "FROM b AS c", "RUN x \\", "    CMD y", "CMD z", 'ENTRYPOINT ["e"]', "# CMD no", "", SHOWN, HIDDEN]
    ),
    max_size=8,
)


def dockerfile(text: str) -> str:
    return dedent(text).lstrip("\n")


def test_the_page_is_turned_on_where_the_server_starts_and_nowhere_else() -> None:
    text = dockerfile(
        """
        FROM python:3.11 AS builder
        RUN cat <<END > /start
        CMD not this
        END
        FROM python:3.11
        HEALTHCHECK --interval=10s \\
            # a comment in between
            CMD curl localhost
        # CMD nor this
        CMD ["server"]
        """
    )
    changed = with_web_page(text, shown=True)
    assert changed == text.replace('CMD ["server"]', f'{SHOWN}\nCMD ["server"]')
    assert with_web_page(changed, shown=True) == changed
    assert with_web_page(changed, shown=False) == changed.replace(SHOWN, HIDDEN)


def test_the_last_start_counts_and_an_entry_point_is_one() -> None:
    assert with_web_page("FROM a\nCMD x\nFROM b\nCMD y", shown=True) == f"FROM a\nCMD x\nFROM b\n{SHOWN}\nCMD y"
    assert with_web_page("FROM a\nENTRYPOINT x\n", shown=True) == f"FROM a\n{SHOWN}\nENTRYPOINT x\n"
    assert with_web_page("FROM a\n", shown=True) == f"FROM a\n{SHOWN}\n"


def test_a_page_is_turned_off_whatever_was_said_before() -> None:
    # A server shows its start page unless it is told not to.
    assert with_web_page("FROM a\nCMD x\n", shown=False) == f"FROM a\n{HIDDEN}\nCMD x\n"
    own = "FROM a\nENV A=1 ENABLE_WEB_INTERFACE=true\nCMD x\n"
    assert with_web_page(own, shown=False) == f"FROM a\nENV A=1 ENABLE_WEB_INTERFACE=true\n{HIDDEN}\nCMD x\n"


@given(lines=LINES, shown=st.booleans())
def test_the_page_is_said_once_and_all_else_stays(lines: list[str], shown: bool) -> None:
    text = "\n".join(lines)
    changed = with_web_page(text, shown=shown)
    assert with_web_page(changed, shown=shown) == changed
    assert [line for line in changed.split("\n") if line not in (SHOWN, HIDDEN, "")] == [
        line for line in lines if line not in (SHOWN, HIDDEN, "")
    ]
    assert changed.split("\n").count(SHOWN if shown else HIDDEN) <= 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ARG BASE_IMAGE=python\nFROM ${BASE_IMAGE}\n", "ARG BASE_IMAGE=mine\nFROM ${BASE_IMAGE}\n"),
        ("ARG BASE_IMAGE\nFROM $BASE_IMAGE\n", "ARG BASE_IMAGE=mine\nFROM $BASE_IMAGE\n"),
        ("FROM python:3.11\n", "FROM mine\n"),
        ("from --platform=linux/amd64 python as x\nRUN y\n", "from --platform=linux/amd64 mine as x\nRUN y\n"),
        ("FROM python AS a\nFROM node AS b\nFROM A\n", "FROM mine AS a\nFROM node AS b\nFROM A\n"),
        ("FROM python AS a\nFROM node\nFROM python\n", "FROM mine AS a\nFROM node\nFROM mine\n"),
        ("RUN no stage at all\n", "RUN no stage at all\n"),
    ],
)
def test_another_base_image(text: str, expected: str) -> None:
    assert with_base_image(text, "mine") == expected
