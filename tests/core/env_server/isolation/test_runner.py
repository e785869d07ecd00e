"""What a session in another process is like, and what becomes of it when that process ends."""

import logging
import os
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.core.env_server.isolation.conftest import Player, ServeIsolated, failure
from tests.support.environments.common import Do, Shown
from tests.support.environments.isolated import (
    AsyncIsolated,
    DeadOnArrival,
    InlineIsolated,
    Isolated,
    make_nothing,
)
from tests.support.processes import is_gone, wait_until_gone
from tests.support.servers import RunningServer, eventually

from openenv.core.env_server.app import create_fastapi_app

pytestmark = pytest.mark.timeout(180)

Play = Callable[[], Player]

HARMLESS = (
    "hello",
    "",
    "half \udfff",
    "raise",
    "unpicklable",
    "illegal",
    "invalid",
    "own",
    "timeout",
    "leave",
    "surrogate",
    "nothing",
    "unsendable",
    "unpicklable result",
    "nan",
    "large",
)


class TestAsInTheServer:
    """Every answer is the one that the environment gives without isolation."""

    @pytest.mark.parametrize("environment", [Isolated, InlineIsolated, AsyncIsolated])
    @pytest.mark.parametrize("per_process", [1, 4])
    def test_every_answer_is_the_same(self, serve_isolated: ServeIsolated, environment: Any, per_process: int) -> None:
        plain = serve_isolated(environment, isolation="none")
        isolated = serve_isolated(environment, sessions_per_process=per_process)
        assert self.episode(isolated) == self.episode(plain)

    def episode(self, server: RunningServer) -> list[dict[str, Any]]:
        with server.wire() as wire:
            answers = [wire.step(what="too early"), wire.reset(seed=3, names=["é"], nested={"a": None})]
            answers += [wire.step(what=what) for what in HARMLESS]
            answers += [wire.step(nonsense=1), wire.state(), wire.step(what="info"), wire.step(what="too late")]
            answers += [wire.reset(what="raise"), wire.reset(what="info"), wire.reset(), wire.step(what="again")]
        return answers

    def test_over_http_too(self, serve_isolated: ServeIsolated) -> None:
        answers = []
        for isolation in ("none", "process"):
            server = serve_isolated(isolation=isolation)
            with server.http() as http:
                calls = [http.post("/reset", json={"seed": 1})]
                calls += [http.post("/step", json={"action": {"what": what}}) for what in HARMLESS if what.isascii()]
                calls += [http.post("/step", json={"action": {"what": "info"}, "note": "x"}), http.get("/state")]
            answers.append([(call.status_code, call.json()) for call in calls])
        assert answers[0] == answers[1]

    def test_metadata_is_the_environment_s_own(self, isolated: RunningServer) -> None:
        with isolated.http() as http:
            answer = http.get("/metadata").json()
        assert answer["name"] == "isolated"
        assert answer["description"] != f"in {os.getpid()}"

    def test_nothing_is_made_in_the_server(self, play: Play) -> None:
        before = list(Isolated.made_in)
        play()
        assert Isolated.made_in == before

    def test_session_info_names_the_class(self, isolated: RunningServer) -> None:
        with httpx.Client(base_url=isolated.url, trust_env=False) as http:
            session_id = http.post("/reset").headers["X-OpenEnv-Session"]
            info = isolated.sessions.get_session_info(session_id)
            assert info is not None
            assert info.environment_type == "Isolated"
            http.delete("/session")


class TestErrors:
    def test_the_traceback_goes_to_the_server_s_log_only(self, play: Play, caplog: pytest.LogCaptureFixture) -> None:
        player = play()
        with caplog.at_level(logging.WARNING, "openenv"):
            answer = player.ask("raise")
            player.do("after")  # what was logged before comes before it
        assert answer["data"] == {"message": "kaboom", "code": "EXECUTION_ERROR"}
        (record,) = [record for record in caplog.records if "kaboom" in record.getMessage()]
        assert "Traceback" in record.getMessage()
        assert record.levelno == logging.ERROR
        assert record.name == "openenv.core.env_server.execution.local_runner"

    def test_a_factory_that_makes_nothing_fitting(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated(make_nothing, max_concurrent_envs=1)
        with server.wire() as wire:
            error = failure(wire.receive())
        assert error["code"] == "FACTORY_ERROR"
        assert error["message"].endswith("expected an object with reset, step and state, got object.")
        server.wait_for_sessions(0)

    def test_a_factory_that_takes_its_process_down(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated(DeadOnArrival)
        for _ in range(2):
            with server.wire() as wire:
                error = failure(wire.receive())
            assert error["code"] == "FACTORY_ERROR"
            assert error["factory_name"] == "DeadOnArrival"
            assert error["message"].endswith("failed to create instance: its process exited with status 9.")
        server.wait_for_sessions(0)


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("segfault", "was ended by signal 11 (SIGSEGV)"),
        ("exit", "exited with status 3"),
        ("kill", "was ended by signal 9 (SIGKILL; it may have run out of memory)"),
        ("orphan", "exited with status 4"),
    ],
)
def test_a_process_that_ends_costs_its_session_the_episode_and_no_other_anything(
    play: Play, what: str, how: str
) -> None:
    player, neighbour = play(), play()
    before, neighbours = player.do("pid"), neighbour.do("pid")
    assert before != neighbours

    assert player.fail(what) == {
        "message": f"The environment's process {how}; the step may have happened. "
        "A reset starts a new episode in a new process.",
        "code": "EXECUTION_ERROR",
        "may_have_happened": True,
        "failure": "process_ended",
    }
    wait_until_gone(before)
    for answer in (player.ask("x"), player.wire.state()):
        error = failure(answer)
        assert (error["code"], error["reset_needed"]) == ("SESSION_ERROR", True)
    assert player.again() not in (before, neighbours)
    assert neighbour.do("pid") == neighbours


def test_what_a_process_started_ends_with_it(play: Play) -> None:
    player = play()
    grandchild = player.do("grandchild")
    assert not is_gone(grandchild)
    player.fail("exit")
    wait_until_gone(grandchild)


@pytest.mark.parametrize("what", ["close", "garbage", "vanish"])
def test_a_process_that_spoils_its_socket_is_ended(play: Play, what: str) -> None:
    player = play()
    before = player.do("pid")
    assert player.fail(what)["may_have_happened"] is True
    wait_until_gone(before)
    assert player.again() != before


class TestKilledBetweenCalls:
    def killed(self, play: Play) -> Player:
        player = play()
        pid = player.do("pid")
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)
        return player

    @pytest.mark.parametrize("operation", ["step", "state"])
    def test_the_next_call_is_told_that_it_was_not_executed(self, play: Play, operation: str) -> None:
        player = self.killed(play)
        ask = player.wire.state if operation == "state" else lambda: player.ask("x")
        first = failure(ask())
        # The kill may still be on its way to the server when the call leaves; then nobody can know.
        if not first["may_have_happened"]:
            assert f"the {operation} was not executed" in first["message"]
        assert "SIGKILL" in first["message"]
        assert failure(ask())["reset_needed"] is True
        player.again()

    def test_a_reset_just_works(self, play: Play) -> None:
        player = play()
        for _ in range(3):
            pid = player.do("pid")
            os.kill(pid, signal.SIGKILL)
            wait_until_gone(pid)
            if player.wire.reset()["type"] == "error":  # it left before the server knew
                player.wire.reset()
            assert player.do("pid") != pid


class TestTimeouts:
    def test_a_hang_that_nothing_in_the_process_could_end(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated(step_timeout_s=0.3)
        player, neighbour = Player(server), Player(server)
        pid, grandchild = player.do("pid"), player.do("grandchild")
        neighbours = neighbour.do("pid")
        error = player.fail("hang")
        assert error == {
            "message": "step did not finish within 0.3 s, so its process was ended. "
            "A reset starts a new episode in a new process.",
            "code": "TIMEOUT",
            "operation": "step",
            "timeout_s": 0.3,
            "may_have_happened": True,
        }
        wait_until_gone(pid, grandchild)
        assert player.fail("x")["reset_needed"] is True
        assert player.again() != pid
        assert neighbour.do("pid") == neighbours
        player.wire.close()
        neighbour.wire.close()

    @pytest.mark.parametrize("environment", [Isolated, InlineIsolated])
    def test_a_reset_that_hangs(self, serve_isolated: ServeIsolated, environment: Any) -> None:
        server = serve_isolated(environment, reset_timeout_s=0.3)
        with server.wire() as wire:
            assert failure(wire.reset(what="hang"))["operation"] == "reset"
            assert wire.reset()["type"] == "observation"

    def test_an_environment_s_own_timeout_error_kills_nothing(self, play: Play) -> None:
        player = play()
        pid = player.do("pid")
        assert player.fail("timeout")["code"] == "TIMEOUT"
        assert player.do("pid") == pid
        assert not is_gone(pid)


class TestClosing:
    def test_a_client_that_goes_during_a_hang_leaves_no_process(
        self, serve_isolated: ServeIsolated, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("openenv.core.env_server.isolation.runner._CLOSE_TIMEOUT_S", 0.2)
        server = serve_isolated()
        player = Player(server)
        pid = player.do("pid")
        player.wire.send({"type": "step", "data": {"what": "hang"}})
        player.wire.cut()
        server.wait_for_sessions(0)
        wait_until_gone(pid)

    def test_a_server_ends_although_an_environment_hangs(
        self, serve_isolated: ServeIsolated, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("openenv.core.env_server.sessions.manager._CLOSE_TIMEOUT_S", 0.3)
        server = serve_isolated(InlineIsolated)
        player = Player(server)
        pid = player.do("pid")
        player.wire.send({"type": "step", "data": {"what": "hang"}})
        server.stop()
        assert is_gone(pid)
        player.wire.close()

    def test_a_cancelled_step_is_cancelled_in_the_process(self, serve_isolated: ServeIsolated) -> None:
        server = serve_isolated(AsyncIsolated, sessions_per_process=2)
        leaving, staying = Player(server), Player(server)
        assert leaving.do("pid") == staying.do("pid")
        leaving.wire.send({"type": "step", "data": {"what": "wait"}})
        eventually(lambda: staying.do("waits"), "the step has begun")
        leaving.wire.cut()
        server.wait_for_sessions(1)
        eventually(lambda: staying.do("cancelled"), "the step was cancelled")
        staying.wire.close()


async def test_an_application_of_one_s_own_without_lifespan_works_too() -> None:
    app = create_fastapi_app(Isolated, Do, Shown, isolation="process")
    transport = httpx.ASGITransport(app)  # which knows of no lifespan
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        assert (await http.post("/reset")).status_code == 200
        answer = await http.post("/step", json={"action": {"what": "pid"}})
        assert answer.json()["observation"]["value"] != os.getpid()
    await app.state.server.close()
