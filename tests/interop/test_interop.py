"""Our clients and servers and those of the public package, each driving each.

Every scenario runs in all four pairings. The pairing of the public client with the public server shows that what we
expect of ours is what the public package does.
"""

import pytest
from tests.interop.conftest import Played, Templates, played_by, saw

SESSIONS = 4
EPISODE = [
    {
        "observation": {
            "done": False,
            "reward": None,
            "metadata": {"seed": 7, "flavour": "plain"},
            "total": 2,
            "text": "",
        },
        "reward": None,
        "done": False,
    },
    {
        "observation": {"done": False, "reward": 1.5, "metadata": {}, "total": 5, "text": ""},
        "reward": 1.5,
        "done": False,
    },
    {"episode_id": "first", "step_count": 1, "total": 5, "seed": 7},
    {
        "observation": {"done": True, "reward": 2.5, "metadata": {}, "total": 10, "text": ""},
        "reward": 2.5,
        "done": True,
    },
]
INVALID = ["RuntimeError", "Server error: Invalid message (code: VALIDATION_ERROR)"]


@pytest.fixture(scope="session")
def played(pairing: tuple[str, str], templates: Templates) -> Played:
    """All scenarios of the counter."""
    return played_by(pairing, templates, server="server", player="play", sessions=SESSIONS)


@pytest.mark.parametrize("scenario", ["play_async", "play_sync", "play_bare"])
def test_an_episode_is_the_same_in_every_way_of_calling(scenario: str, played: Played) -> None:
    assert saw(played, scenario) == EPISODE


def test_the_generic_client_sees_plain_dicts(played: Played) -> None:
    start, first, second, reward, state = saw(played, "play_generic")

    assert start == {"metadata": {"seed": None}, "total": 1, "text": ""}
    assert first == {"metadata": {}, "total": 3, "text": ""}
    assert second == {"metadata": {}, "total": 6, "text": ""}
    assert reward == 1.5
    assert state == {"episode_id": None, "step_count": 2, "total": 6, "seed": None}


def test_a_failed_step_has_its_error_and_leaves_the_session_usable(played: Played) -> None:
    wrong_type, after_type, wrong_name, after_name, raised, after_raise, steps = saw(played, "break_rules")

    for kind, text in (wrong_type, wrong_name):  # ours goes on to say what is wrong with which field
        assert [kind, text[: len(INVALID[1])]] == INVALID
    assert raised == ["RuntimeError", "Server error: thirteen is unlucky (code: EXECUTION_ERROR)"]
    assert [after_type, after_name, after_raise, steps] == [1, 2, 3, 3]


def test_an_observation_of_megabytes_arrives(played: Played) -> None:
    assert saw(played, "send_much") == 3_000_000


def test_sessions_of_one_client_share_nothing(played: Played) -> None:
    assert saw(played, "open_siblings") == [2, 5]


def test_a_full_server_says_so_and_gives_a_freed_place_away(played: Played) -> None:
    totals, refused = saw(played, "fill_server")

    assert totals == [0, 1, 2, 3, 99]
    full = f"Server at capacity: {SESSIONS}/{SESSIONS} sessions active. Cannot accept new connections."
    assert refused == ["RuntimeError", f"Server error: {full} (code: CAPACITY_REACHED)"]


def test_nobody_there_is_a_connection_error(played: Played) -> None:
    kind, message = saw(played, "call_nobody")

    assert kind == "ConnectionError"
    assert message.startswith("Failed to connect to ws://127.0.0.1:9/ws: ")


def test_a_step_before_reset_reaches_the_environment(played: Played) -> None:
    (kind, _), total = saw(played, "step_first")

    assert (kind, total) == ("no error", 3)
