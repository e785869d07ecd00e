"""Tool clients and environments by tools of our package and of the public one, each driving each."""

import pytest
from tests.interop.conftest import Played, Templates, played_by, saw

TOOLS = ["write", "read", "untyped", "fall"]
EPISODE = [{"status": "ready"}, TOOLS, 2, {"notes": ["a", "a"]}, "first", 2]


@pytest.fixture(scope="session")
def played(pairing: tuple[str, str], templates: Templates) -> Played:
    """All scenarios of the notes."""
    return played_by(pairing, templates, server="tool_server", player="tool_play", sessions=8)


@pytest.mark.parametrize("scenario", ["call_async", "call_sync"])
def test_tools_work_on_the_session_that_is_reset(scenario: str, played: Played) -> None:
    assert saw(played, scenario) == EPISODE


def test_tools_may_be_listed_and_called_by_steps(played: Played) -> None:
    assert saw(played, "step_tools") == [
        TOOLS,
        ["CallToolObservation", "write", 1, None, False],
        ["CallToolObservation", None, "tool_not_found"],
    ]


def test_what_fails_says_why_and_the_session_goes_on(played: Played) -> None:
    fell, stole, *after = saw(played, "fail")

    assert fell[0] == stole[0] == "RuntimeError"
    assert fell[1].startswith("Tool 'fall' failed: ")
    assert fell[1].endswith("it's slippery")
    assert stole[1] == "Tool 'steal' failed: Unknown tool: 'steal'"
    assert after == [True, False, 1]


def test_a_tool_is_described_alike(played: Played) -> None:
    assert saw(played, "look_up") == ["Write a note.", ["text", "times"], ["text"]]


def test_an_untyped_text_is_lost_between_public_ones_only(pairing: tuple[str, str], played: Played) -> None:
    assert saw(played, "untyped") == (None if pairing == ("public", "public") else "psst")


def test_agents_share_nothing(played: Played) -> None:
    assert saw(played, "keep_apart") == [4, 1]
