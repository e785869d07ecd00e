"""Which session lives in which process, and that nothing is left behind."""

import os
import signal
import threading
from typing import Any

import pytest
from tests.core.env_server.isolation.conftest import Player, ServeIsolated, descriptors, failure
from tests.support.environments.common import Do, Shown
from tests.support.environments.isolated import (
    AsyncIsolated,
    InlineIsolated,
    Isolated,
    SingleThreadIsolated,
    make_alone,
    make_isolated,
)
from tests.support.processes import wait_until_gone
from tests.support.servers import RunningServer, eventually, ticks

from openenv.core.env_server.app import HTTPEnvServer, create_fastapi_app
from openenv.core.exceptions import ConcurrencyConfigurationError

pytestmark = pytest.mark.timeout(180)


class TestSharing:
    def test_sessions_fill_a_process_before_the_next_one(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated(sessions_per_process=2)
        players = [Player(server) for _ in range(5)]
        processes = [player.do("pid") for player in players]
        assert len(set(processes)) == 3
        assert sorted(processes.count(process) for process in set(processes)) == [1, 2, 2]

        leaving = processes.index(next(process for process in processes if processes.count(process) == 2))
        players.pop(leaving).wire.close()
        server.wait_for_sessions(4)
        alone = {player.do("pid") for player in players}
        players += [Player(server), Player(server)]
        assert {player.do("pid") for player in players} == alone
        for player in players:
            player.wire.close()

    def test_sessions_that_open_at_once_share_too(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated(sessions_per_process=4)
        wires = [server.wire() for _ in range(8)]
        for wire in wires:
            wire.send({"type": "reset"})
        for wire in wires:
            assert wire.receive()["type"] == "observation"
        processes = [wire.step(what="pid")["data"]["observation"]["value"] for wire in wires]
        assert sorted(processes.count(process) for process in set(processes)) == [4, 4]
        for wire in wires:
            wire.close()

    @pytest.mark.parametrize(
        ("environment", "threads"), [(Isolated, 3), (SingleThreadIsolated, 1), (InlineIsolated, 1)]
    )
    def test_each_runs_in_its_place(self, serve_isolated: ServeIsolated, environment: Any, threads: int) -> None:
        server = serve_isolated(environment, sessions_per_process=3)
        players = [Player(server) for _ in range(3)]
        assert len({player.do("pid") for player in players}) == 1
        assert len({player.do("thread") for player in players}) == threads
        for player in players:
            player.wire.close()

    def test_a_crash_is_told_to_every_session_of_the_process(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated(AsyncIsolated, sessions_per_process=3)
        crashing, waiting, idle, elsewhere = [Player(server) for _ in range(4)]
        other = elsewhere.do("pid")
        assert crashing.do("pid") == waiting.do("pid") == idle.do("pid") != other
        waiting.wire.send({"type": "step", "data": {"what": "wait"}})
        assert idle.do("x") == "x"

        assert crashing.fail("segfault")["may_have_happened"] is True
        assert failure(waiting.wire.receive())["may_have_happened"] is True
        error = idle.fail("x")
        assert (error["code"], error["may_have_happened"]) == ("EXECUTION_ERROR", False)
        assert "signal 11" in error["message"]
        for player in (crashing, waiting, idle):
            player.again()
        assert elsewhere.do("pid") == other
        for player in (crashing, waiting, idle, elsewhere):
            player.wire.close()

    def test_a_timeout_is_told_to_the_others_as_what_it_was(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated(sessions_per_process=2, step_timeout_s=0.3)
        slow, other = Player(server), Player(server)
        assert slow.do("pid") == other.do("pid")
        assert slow.fail("hang")["code"] == "TIMEOUT"
        error = other.fail("x")
        assert error["code"] == "EXECUTION_ERROR"
        assert "was ended because the step did not finish within 0.3 s in another session" in error["message"]
        assert slow.again() == other.again()
        slow.wire.close()
        other.wire.close()

    def test_a_step_that_has_time_left_does_not_time_out_with_another(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated(AsyncIsolated, sessions_per_process=2, step_timeout_s=3.0)
        slow, other = Player(server), Player(server)
        assert slow.do("pid") == other.do("pid")
        slow.wire.send({"type": "step", "data": {"what": "wait"}})
        for _ in ticks(1.0):  # so much later than the other step, whose report comes in milliseconds
            other.do("x")
        other.wire.send({"type": "step", "data": {"what": "wait"}})
        assert failure(slow.wire.receive())["code"] == "TIMEOUT"
        error = failure(other.wire.receive())
        assert error["code"] == "EXECUTION_ERROR"
        assert "was ended because the step did not finish within 3 s in another session" in error["message"]
        slow.wire.close()
        other.wire.close()


class TestUnknownClasses:
    """A function that does not say what it makes: only a process can tell."""

    def test_one_that_supports_many_sessions(self, serve_isolated: ServeIsolated) -> None:
        before = list(Isolated.made_in)
        server = serve_isolated(make_isolated)
        players = [Player(server) for _ in range(2)]
        assert players[0].first["data"]["observation"]["value"]["note"] == "from a function"
        assert Isolated.made_in == before
        for player in players:
            player.wire.close()

    async def test_one_that_does_not(self) -> None:
        server = HTTPEnvServer(make_alone, Do, Shown, max_concurrent_envs=2, isolation="process")
        with pytest.raises(ConcurrencyConfigurationError, match="make_alone was to serve 2 sessions"):
            await server.start()
        await server.close()


class TestNothingIsLeftBehind:
    def test_after_sessions_of_every_fate(self) -> None:
        app = create_fastapi_app(Isolated, Do, Shown, max_concurrent_envs=8, isolation="process", step_timeout_s=0.5)
        before = (descriptors(), set(threading.enumerate()))
        with RunningServer(app) as server:
            quiet = Player(server)
            fork_server, pid = quiet.do("parent"), quiet.do("pid")
            quiet.wire.close()
            server.wait_for_sessions(0)
            wait_until_gone(pid)
            serving = descriptors()
            seen = []
            for what in ("x", "segfault", "orphan", "hang", "large") * 2:
                player = Player(server)
                seen.append(player.do("pid"))
                player.ask(what)
                player.wire.close()
            server.wait_for_sessions(0)
            wait_until_gone(*seen)
            eventually(lambda: descriptors() <= serving, "every descriptor is given back")
        wait_until_gone(fork_server)
        eventually(lambda: (descriptors(), set(threading.enumerate())) == before, "nothing is left")

    def test_an_application_is_served_twice(self) -> None:
        app = create_fastapi_app(Isolated, Do, Shown, isolation="process")
        for _ in range(2):
            with RunningServer(app) as server:
                player = Player(server)
                pid = player.do("pid")
                player.wire.close()
            wait_until_gone(pid)


class TestForkServer:
    def test_killing_it_costs_its_sessions_their_episodes_and_no_more(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated()
        first, second, hanging = [Player(server) for _ in range(3)]
        fork_server, processes = first.do("parent"), [player.do("pid") for player in (first, second, hanging)]
        hanging.wire.send({"type": "step", "data": {"what": "hang"}})
        os.kill(fork_server, signal.SIGKILL)
        wait_until_gone(fork_server, *processes)
        for player in (first, second):
            error = player.fail("x")
            assert error["code"] == "EXECUTION_ERROR"
            assert "process has ended" in error["message"]
            player.again()
            assert player.do("parent") != fork_server
            player.wire.close()
        assert failure(hanging.wire.receive())["may_have_happened"] is True
        hanging.wire.close()
