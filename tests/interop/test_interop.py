"""Our clients and servers and those of the public package, each driving each.

Every scenario runs in all four pairings. The pairing of the public client with the public server shows that what we
expect of ours is what the public package does.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.public_package import COMMAND, ROOT, PublicPackageError, public_python

PROGRAMS = "tests.interop.programs"
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


PACKAGES = ("ours", "public")
# What each scenario of programs/play.py saw, or how it failed.
Played = dict[str, dict[str, Any]]


@pytest.fixture(scope="session")
def interpreters() -> dict[str, Path]:
    """The interpreter that has each package."""
    try:
        return {"ours": Path(sys.executable), "public": public_python()}
    except PublicPackageError as error:
        pytest.skip(f"{error}\nInstall it with: {COMMAND}")


@pytest.fixture(
    scope="session", params=[f"{client} client, {server} server" for client in PACKAGES for server in PACKAGES]
)
def pairing(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Whose client drives whose server."""
    client, _, server, _ = request.param.split()
    return client, server


@pytest.fixture(scope="session")
def played(pairing: tuple[str, str], interpreters: dict[str, Path]) -> Played:
    """All scenarios, played in one process of the client's package, which takes seconds to import."""
    client, server = pairing
    with running_server(interpreters[server]) as url:
        command = [str(interpreters[client]), "-m", f"{PROGRAMS}.play", "--url", url]
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert finished.returncode == 0, finished.stderr
    outcomes: Played = json.loads(finished.stdout)
    return outcomes


@contextmanager
def running_server(python: Path) -> Iterator[str]:
    """Serve the counter with the package that an interpreter has, and yield the address."""
    command = [str(python), "-m", f"{PROGRAMS}.server", "--sessions", str(SESSIONS)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def saw(played: Played, scenario: str) -> Any:
    """Return what a scenario saw."""
    assert "failed" not in played[scenario], played[scenario]["failed"]
    return played[scenario]["saw"]


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

    assert wrong_type == wrong_name == INVALID
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


def test_a_step_before_reset_is_refused_by_ours_only(pairing: tuple[str, str], played: Played) -> None:
    (kind, message), total = saw(played, "step_first")

    assert total == 3
    if pairing[1] == "ours":
        assert kind == "RuntimeError"
        assert message.endswith("(code: SESSION_ERROR)")
    else:
        assert kind == "no error"
