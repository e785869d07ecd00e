import keyword
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from browsergym_env import BrowserGymAction
from browsergym_env.server.action_language import Call, parse_calls
from openenv.core.exceptions import IllegalActionError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
NAMES = st.from_regex(r"[a-z_][a-z_0-9]{0,15}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("click('12')", [("click", ("12",), {})]),
        ('  fill("42", "O\'Connor")\n', [("fill", ("42", "O'Connor"), {})]),
        (r"fill('42', 'O\'Connor')", [("fill", ("42", "O'Connor"), {})]),
        ("fill('1', 'a) b( c')", [("fill", ("1", "a) b( c"), {})]),
        ("scroll(0, -200.5)", [("scroll", (0, -200.5), {})]),
        ("click('1', button='right')", [("click", ("1",), {"button": "right"})]),
        ("select_option('1', ['a', 'b'])", [("select_option", ("1", ["a", "b"]), {})]),
        ("click('1')\nclick('2'); noop()", [("click", ("1",), {}), ("click", ("2",), {}), ("noop", (), {})]),
        ("I'd say: ```python\nclick('7')\n``` (it isn't hard)", [("click", ("7",), {})]),
        ("fill(\n  '1',\n  '''two\nlines'''\n)", [("fill", ("1", "two\nlines"), {})]),
        ("fill('1', 'é ü 🎲 \u2028')", [("fill", ("1", "é ü 🎲 \u2028"), {})]),
    ],
)
def test_calls_are_found(text: str, calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> None:
    assert parse_calls(text) == [Call(*call) for call in calls]


@pytest.mark.parametrize("text", ["", "click", "click ('12')", "I am done.", "()"])
def test_a_text_without_a_call_is_refused(text: str) -> None:
    with pytest.raises(IllegalActionError):
        parse_calls(text)


@pytest.mark.parametrize(
    "text",
    [
        "fill('42', 'O'Connor')",
        "fill('42', 'don't click('1')')",  # and nothing of it is clicked
        "click(",
        "click('12'",
        "click(__import__('os').getpid())",
        "click(open('/etc/passwd').read())",
        "click(f'{1}')",
        "click(bid)",
        "click(*['1'])",
        "click(1 if True else 2)",
        "click([x for x in '12'])",
        "click('\0')",
        "click(" * 300 + ")" * 300,
        "noop(" + "[" * 3000 + "]" * 3000 + ")",
        "noop(" + "-" * 9000 + "1)",
    ],
)
def test_what_is_no_plain_call_is_refused(text: str) -> None:
    with pytest.raises(IllegalActionError) as refused:
        parse_calls(text)
    assert len(str(refused.value)) < 1000


@given(NAMES, st.lists(PLAIN, max_size=3), st.dictionaries(NAMES, PLAIN, max_size=2))
def test_what_a_client_writes_arrives(name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    text = BrowserGymAction.call(name, *args, **kwargs).action_str
    try:
        calls = parse_calls(text)
    except IllegalActionError:
        # Words of Python, such as `if`, name no function.
        assert not _is_plain_name(name) or not all(map(_is_plain_name, kwargs))
    else:
        assert calls == [Call(name, tuple(args), kwargs)]


def _is_plain_name(name: str) -> bool:
    return not keyword.iskeyword(name)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(IllegalActionError):
        assert parse_calls(text)


@given(st.text("cli('12\")\\ ,[]\n{}#", max_size=60))
def test_near_misses_are_read_or_refused(text: str) -> None:
    with suppress(IllegalActionError):
        assert all(call.name.isidentifier() for call in parse_calls("click(" + text))
