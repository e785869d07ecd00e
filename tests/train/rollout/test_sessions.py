"""Many sessions at once on a real server."""

import gc
from pathlib import Path

import psutil
import pytest
from tests.support.environment_folders import scaffold
from tests.support.environments.training import CRASHING_SEEDS, FAILING_RESET_SEEDS, seeded
from tests.support.servers import RunningServer, ServerProcess

from openenv import GenericEnvClient
from openenv.core.client_types import StepResult
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    EnvironmentNotFoundError,
    RequestRejectedError,
    ServerCapacityError,
    ServerExecutionError,
)
from openenv.train.rollout.sessions import Sessions


def reward(outcome: object) -> float | None:
    assert isinstance(outcome, StepResult)
    return outcome.reward


def test_every_session_has_its_own_episode(stairs: Sessions) -> None:
    results = stairs.reset_tasks(seeded([0, 1, 2]))
    assert [result.observation["text"] for result in results] == ["step of 1", "step of 2", "step of 3"]
    outcomes = stairs.step({2: {"move": "up"}, 0: {"move": "up"}})
    assert {number: reward(outcome) for number, outcome in outcomes.items()} == {2: 0.25, 0: 0.25}
    assert [outcome.done for outcome in outcomes.values() if isinstance(outcome, StepResult)] == [False, True]
    assert stairs.step({}) == {}


def test_a_server_tells_its_actions(stairs: Sessions) -> None:
    assert isinstance(stairs.action, dict)
    assert stairs.action["properties"]["move"]["enum"] == ["up", "wait", "fall asleep"]
    assert stairs.name == "127.0.0.1"
    assert stairs.package is None
    assert len(stairs) == 12


def test_a_failure_in_one_session_harms_no_other(stairs: Sessions) -> None:
    stairs.reset_tasks(seeded([CRASHING_SEEDS + 3, 3, 3]))
    up = {"move": "up"}
    stairs.step({0: up, 1: up, 2: up})
    outcomes = stairs.step({0: up, 1: {"move": "fall asleep"}, 2: up})
    assert isinstance(outcomes[0], ServerExecutionError)
    assert isinstance(outcomes[1], RequestRejectedError)
    assert outcomes[1].message == "No sleeping on the stairs."
    assert reward(outcomes[2]) == 0.5
    assert reward(stairs.step({1: up})[1]) == 0.5, "a refused action must leave the episode as it was"
    assert len(stairs.reset_tasks(seeded([1, 2, 3]))) == 3


def test_labels_of_a_task_are_no_parameters_of_its_reset(stairs: Sessions) -> None:
    (first,) = stairs.reset_tasks([{"seed": 2, "id": "two", "difficulty": 0.5, "group": "short"}])
    assert first.observation["text"] == "step of 3"
    with pytest.raises(RequestRejectedError, match="reset does not take 'dificulty'"):
        stairs.reset_tasks([{"seed": 2, "dificulty": 0.5}])


def test_a_failing_reset_is_raised(stairs: Sessions) -> None:
    with pytest.raises(ServerExecutionError):
        stairs.reset_tasks(seeded([1, FAILING_RESET_SEEDS]))
    assert len(stairs.reset_tasks(seeded([1, 2]))) == 2


def test_sessions_grow_with_the_episodes(stairs: Sessions, stairs_server: RunningServer) -> None:
    assert len(stairs.reset_tasks(seeded(list(range(13))))) == len(stairs) == 13
    assert len(stairs.reset_tasks(seeded([1, 2]))) == 2
    stairs_server.wait_for_sessions(13)


def test_more_sessions_than_the_server_holds_are_refused(stairs_server: RunningServer) -> None:
    with pytest.raises(ServerCapacityError, match="24/24"):
        Sessions.open(stairs_server.url, 25)
    stairs_server.wait_for_sessions(0)


def test_fewer_sessions_are_opened_where_the_server_holds_fewer(stairs_server: RunningServer) -> None:
    with Sessions.open(stairs_server.url, 100, takes_fewer=True) as all_there_are:
        assert len(all_there_are) == 24
        assert len(all_there_are.reset_tasks(seeded(list(range(24))))) == 24
    stairs_server.wait_for_sessions(0)
    with (
        Sessions.open(stairs_server.url, 20),
        Sessions.open(stairs_server.url, 16, with_tools=True, takes_fewer=True) as rest,
    ):
        assert len(rest) == 4
    stairs_server.wait_for_sessions(0)


def test_sessions_that_could_not_grow_go_on_with_as_many_as_there_are(stairs_server: RunningServer) -> None:
    with Sessions.open(stairs_server.url, 2) as sessions:
        with pytest.raises(ServerCapacityError):
            sessions.reset_tasks(seeded(list(range(25))))
        assert len(sessions.reset_tasks(seeded([1, 2]))) == 2


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:9"):
        Sessions.open("http://127.0.0.1:9", 2)


def test_an_environment_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotFoundError):
        Sessions.open(str(tmp_path), 2)


def test_a_server_that_dies_is_an_error_once_its_sessions_have_ended() -> None:
    window_s = "1"  # for as long the client looks for the server
    with ServerProcess("counter_server.py", "8", "0", window_s) as server, Sessions.open(server.url, 4) as sessions:
        sessions.reset_tasks(seeded([1, 2, 3, 4]))
        server.kill()
        outcomes = sessions.step({number: {"amount": 1} for number in range(4)})
        assert all(isinstance(outcome, ConnectionLostError | ConnectionFailedError) for outcome in outcomes.values())
        with pytest.raises((ConnectionFailedError, ConnectionLostError)):
            sessions.reset_tasks(seeded([1]))


@pytest.mark.level("process")
def test_a_folder_is_served_for_as_long_as_the_sessions_live(tmp_path: Path) -> None:
    before = _servers()
    folder = scaffold(tmp_path, "parrot_env")
    with Sessions.open(str(folder), 3) as sessions:
        assert len(_servers() - before) == 1
        assert sessions.package is not None
        assert sessions.name == sessions.package.name
        assert isinstance(sessions.action, type)
        sessions.reset_tasks(seeded([1]))
        hello = sessions.action.model_validate({"message": "hello"})
        assert reward(sessions.step({0: hello})[0]) == pytest.approx(0.5)
    assert _servers() == before


def unopened(server: RunningServer) -> Sessions:
    return Sessions("stairs", GenericEnvClient(base_url=server.url).sync())


def test_sessions_open_with_their_first_use_and_share_a_connection(stairs_server: RunningServer) -> None:
    sessions = unopened(stairs_server)
    alone = [sessions.session() for _ in range(5)]
    assert stairs_server.sessions.active_sessions == 0

    results = [session.reset(seed=seed) for seed, session in enumerate(alone)]

    assert [result.observation["position"] for result in results] == [0] * 5
    assert stairs_server.sessions.active_sessions == 5
    assert stairs_server.connections == 1
    sessions.close()
    stairs_server.wait_for_sessions(0)


def test_closed_sessions_give_no_more(stairs_server: RunningServer) -> None:
    sessions = unopened(stairs_server)
    sessions.close()
    sessions.close()

    assert sessions.closed
    with pytest.raises(ConfigurationError, match="were closed"):
        sessions.session()
    with pytest.raises(ConfigurationError, match="were closed"):
        sessions.reset_tasks(seeded([1]))


def test_sessions_that_nobody_holds_end(stairs_server: RunningServer) -> None:
    sessions = unopened(stairs_server)
    sessions.session().reset(seed=1)
    assert stairs_server.sessions.active_sessions == 1

    del sessions
    gc.collect()

    stairs_server.wait_for_sessions(0)


def _servers() -> set[int]:
    """Process ids of the servers that this process has started and that still run."""
    return {child.pid for child in psutil.Process().children() if "openenv.cli" in child.cmdline()}
