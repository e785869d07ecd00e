"""Sessions on v1 that outlive their socket: taken up again, each request carried out once."""

import threading
import time
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.conftest import Serve
from tests.support.environments.common import (
    GOAL,
    AsyncCounterEnvironment,
    CounterEnvironment,
    Do,
    Gate,
    GatedEnvironment,
    LaterEnvironment,
    MischievousEnvironment,
    Shown,
    StubbornEnvironment,
    ThreadedCounterEnvironment,
    Total,
)
from tests.support.servers import RunningServer, V1Wire, eventually

from openenv.core.env_server.history.entries import KeptData
from openenv.core.env_server.history.record import MemoryRecord
from openenv.core.env_server.types import ConcurrencyConfig
from openenv.core.wire.messages import V1Request

IN_EACH_PLACE = pytest.mark.parametrize(
    "environment",
    [CounterEnvironment, ThreadedCounterEnvironment, AsyncCounterEnvironment, LaterEnvironment],
    ids=["inline", "thread", "async", "later"],
)


def total(answer: dict[str, Any]) -> int:
    assert answer["type"] == "observation", answer
    number: int = answer["data"]["observation"]["total"]
    return number


def code(answer: dict[str, Any]) -> str:
    assert answer["type"] == "error", answer
    text: str = answer["data"]["code"]
    return text


def started(wire: V1Wire) -> tuple[str, str]:
    """Open a session and step it to 1."""
    name, token = wire.open_with_token()
    wire.do("reset", name)
    assert total(wire.do("step", name, amount=1)) == 1
    return name, token


class TestAttach:
    @IN_EACH_PLACE
    def test_a_session_goes_on_where_it_stood(self, serve: Serve, environment: type) -> None:
        server = serve(environment)
        with server.v1() as wire:
            name, token = started(wire)
            wire.cut()
        with server.v1() as wire:
            attached = wire.attach(name, token)
            assert (attached["type"], attached["session"]) == ("attached", name)
            terms = {"token": token, "last_id": 2, "resume_window_s": 30, "max_message_bytes": 16 * 1024 * 1024}
            assert attached["data"] == terms
            assert total(wire.do("step", name, amount=1)) == 2
            assert server.sessions.active_sessions == 1

    @pytest.mark.parametrize("token", ["", "x", "\u00e9", "\ud800", "a" * 22])
    def test_without_its_token_nobody_gets_a_session(self, serve: Serve, token: str) -> None:
        server = serve()
        with server.v1() as thief, server.v1() as wire:
            name, own = started(wire)
            if token.isascii() or token.isprintable():
                refused = thief.attach(name, token)
                assert (code(refused), "session" in refused) == ("UNAUTHORIZED", False)
                assert own not in str(refused)
            assert total(wire.do("step", name, amount=1)) == 2, "it stays where it was"

    def test_its_id_alone_opens_nothing(self, serve: Serve) -> None:
        """Neither over HTTP nor to a legacy socket, which name sessions of theirs so."""
        server = serve()
        with server.v1() as wire, server.http() as http:
            name, _ = started(wire)
            header = {"X-OpenEnv-Session": name}
            assert http.post("/step", json={"action": {"amount": 1}}, headers=header).status_code == 404
            assert http.delete("/session", headers=header).status_code == 404
            with server.wire(f"/ws?session_id={name}") as legacy:
                assert code(legacy.receive()) == "SESSION_ERROR"
            assert total(wire.do("step", name, amount=1)) == 2

    def test_another_session_s_token_is_none(self, serve: Serve) -> None:
        with serve().v1() as wire:
            (first, _), (_, token) = started(wire), started(wire)
            assert code(wire.attach(first, token)) == "UNAUTHORIZED"

    def test_an_unknown_session(self, serve: Serve) -> None:
        with serve().v1() as wire:
            refused = wire.attach("nobody", "token")
            assert (code(refused), "session" in refused) == ("SESSION_ERROR", False)

    @pytest.mark.parametrize("data", [{}, {"token": 1}, {"token": "x", "answered": -1}, {"token": "x", "more": 1}])
    def test_what_is_no_attach_message(self, serve: Serve, data: dict[str, Any]) -> None:
        with serve().v1() as wire:
            assert code(wire.ask({"type": "attach", "id": 1, "session": "s", "data": data})) == "VALIDATION_ERROR"

    def test_one_that_ends_with_its_request_under_way_is_gone(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(StubbornEnvironment, gate, partial(Total, total=9)))
        with server.v1() as wire:
            name, token = started(wire)
            wire.send(wire.message("step", name, amount=9))
            gate.wait_until_entered()
        eventually(lambda: "cancelled" in gate.calls, "the client has said goodbye")
        with server.v1() as wire:
            assert code(wire.attach(name, token)) == "SESSION_ERROR"
        gate.opened.set()
        server.wait_for_sessions(0)

    def test_the_later_socket_has_it(self, serve: Serve) -> None:
        """The first one may be half open, and nobody knows yet."""
        server = serve()
        with server.v1() as first, server.v1() as second:
            name, token = started(first)
            other = first.open()
            assert second.attach(name, token)["type"] == "attached"
            assert total(second.do("step", name, amount=1)) == 2
            assert code(first.do("step", name, amount=1)) == "SESSION_ERROR"
            assert total(first.do("reset", other)) == 0, "the socket's other sessions go on"
            first.close()
            server.wait_for_sessions(1)
            assert total(second.do("step", name, amount=1)) == 3

    def test_attaching_twice_on_a_socket_changes_nothing(self, serve: Serve) -> None:
        with serve().v1() as wire:
            name, token = started(wire)
            assert wire.attach(name, token)["type"] == "attached"
            assert total(wire.do("step", name, amount=1)) == 2

    def test_one_whose_old_socket_is_stuck_goes_on(self, serve: Serve) -> None:
        """Its client leaves unread what it was sent, as one does whose cable was pulled out."""
        steps: list[int] = []

        class Talkative(MischievousEnvironment):
            def step(self, action: Do) -> Any:
                steps.append(1)
                return Shown(value="x" * 100_000)

        server = serve(partial(Talkative, {}), Do, Shown)
        with server.v1() as stuck, server.v1() as wire:
            (name, token), other = stuck.open_with_token(), wire.open()
            stuck.do("reset", name)
            wire.do("reset", other)
            stuck.send([stuck.message("step", name, what="x") for _ in range(400)])

            def waits() -> bool:
                before = len(steps)
                for _ in range(100):
                    wire.do("state", other)
                return 2 < before == len(steps)

            eventually(waits, "the session waits for its client")
            assert wire.attach(name, token)["data"]["last_id"] == 1 + len(steps)
            assert wire.do("step", name, what="x")["type"] == "observation"
            stuck.cut()

    def test_a_client_that_knows_of_more_than_happened_is_told(self, serve: Serve) -> None:
        server = serve()
        with server.v1() as wire:
            name, token = started(wire)
            assert code(wire.attach(name, token, answered=3)) == "SESSION_LOST"
            assert code(wire.attach(name, "another's", answered=3)) == "UNAUTHORIZED"
            assert wire.attach(name, token, answered=2)["type"] == "attached"
            assert total(wire.do("step", name, amount=1)) == 2

    def test_the_longest_answer_is_the_new_socket_s(self, serve: Serve) -> None:
        server = serve()
        with server.v1() as wire:
            name, token = started(wire)
            wire.cut()
        with server.v1() as wire:
            wire.attach(name, token, max_message_bytes=5)
            assert code(wire.do("step", name, amount=1)) == "TOO_LARGE"


class TestExactlyOnce:
    @IN_EACH_PLACE
    def test_what_was_answered_is_answered_again(self, serve: Serve, environment: type) -> None:
        server = serve(environment)
        with server.v1() as wire:
            name, token = started(wire)
            step = wire.message("step", name, amount=1)
            answer = wire.ask(step)
            wire.cut()
        for _ in range(3):
            with server.v1() as wire:
                assert wire.attach(name, token, answered=2)["data"]["last_id"] == 3
                assert wire.ask(step) == answer
                wire.cut()
        with server.v1() as wire:
            wire.attach(name, token, answered=3)
            assert total(wire.do("step", name, amount=1)) == 3

    def test_a_step_under_way_goes_on_and_is_answered_to_whoever_asks_again(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.v1() as wire:
            name, token = wire.open_with_token()
            wire.do("reset", name)
            step = wire.message("step", name, amount=9)
            wire.send(step)
            gate.wait_until_entered()
            wire.cut()
        with server.v1() as wire:
            assert wire.attach(name, token)["data"]["last_id"] == 2
            wire.send([step, step])
            gate.opened.set()
            answers = wire.receive_many(2)
            assert answers[0] == answers[1]
            assert total(answers[0]) == 9
        assert gate.calls.count("step") == 1

    def test_what_had_not_begun_is_not_carried_out(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.v1() as wire:
            name, token = wire.open_with_token()
            requests = [wire.message("reset", name, episode_id="held")]
            requests += [wire.message("step", name, amount=1) for _ in range(3)]
            wire.send(requests)
            gate.wait_until_entered()
            wire.cut()
        with server.http() as http:
            eventually(lambda: http.get("/sessions").json()["sessions"][0]["away"], "the server notices")
        gate.opened.set()
        with server.v1() as wire:
            assert wire.attach(name, token)["data"]["last_id"] == 1
            wire.send(requests)
            assert [total(answer) for answer in wire.receive_many(4)] == [0, 1, 2, 3]
        assert (gate.calls.count("reset"), gate.calls.count("step")) == (1, 3)

    @given(st.lists(st.sampled_from(["step", "repeat", "move", "state", "bad", "early"]), max_size=25))
    def test_whatever_comes_twice_or_elsewhere_counts_once(
        self, counter_server: RunningServer, moves: list[str]
    ) -> None:
        with counter_server.v1() as first, counter_server.v1() as second:
            name, token = first.open_with_token()
            last: dict[str, Any] = {"type": "reset", "id": 1, "session": name, "data": {}}
            here, there, answer, count = first, second, first.ask(last), 0
            for move in moves:
                number = last["id"] + 1
                if move == "move":
                    here, there = there, here
                    assert here.attach(name, token)["data"]["last_id"] == last["id"]
                elif move == "repeat":
                    assert here.ask(last) == answer
                elif move == "early":
                    message = {"type": "step", "id": number + 1, "session": name, "data": {"amount": 5}}
                    assert code(here.ask(message)) == "VALIDATION_ERROR"
                else:
                    data = {"amount": 1} if move == "step" else {"amount": "much"}
                    last = {"type": "step", "id": number, "session": name, "data": data}
                    if move == "state":
                        last = {"type": "state", "id": number, "session": name}
                    answer = here.ask(last)
                    count += move == "step"
                    assume(count < 10)  # with which the episode ends
            number = last["id"] + 1
            assert total(here.ask({"type": "step", "id": number, "session": name, "data": {"amount": 1}})) == count + 1


class TestAway:
    def test_a_session_whose_client_stays_away_ends_after_the_window(self, serve: Serve) -> None:
        server = serve(resume_window_s=0.2)
        with server.v1() as wire:
            name, token = started(wire)
            wire.cut()
        assert server.sessions.active_sessions == 1, "its place is kept"
        server.wait_for_sessions(0)
        with server.v1() as wire:
            assert code(wire.attach(name, token)) == "SESSION_ERROR"

    def test_one_that_comes_back_in_time_stays_as_long_as_it_likes(self, serve: Serve) -> None:
        server = serve(resume_window_s=0.3)
        with server.v1() as wire:
            (name, token), _ = started(wire), started(wire)
            wire.cut()
        with server.v1() as wire:
            wire.attach(name, token)
            server.wait_for_sessions(1)  # the other one's window has passed
            assert total(wire.do("step", name, amount=1)) == 2

    @pytest.mark.parametrize("end", [V1Wire.close, V1Wire.cut], ids=["a goodbye", "no window"])
    def test_it_ends_at_once_after(self, serve: Serve, end: Any) -> None:
        server = serve(resume_window_s=0 if end is V1Wire.cut else 1000)
        with server.v1() as wire:
            started(wire)
            end(wire)
            server.wait_for_sessions(0)

    def test_a_hanging_step_is_ended_with_its_window(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), resume_window_s=0.1)
        with server.v1() as wire:
            name = wire.open()
            wire.do("reset", name)
            wire.send(wire.message("step", name, amount=9))
            gate.wait_until_entered()
            wire.cut()
        server.wait_for_sessions(0)

    def test_time_away_is_no_idle_time(self, serve: Serve) -> None:
        """Its client has the resume window to come back, and its idle time anew from then on."""
        server = serve(concurrency_config=ConcurrencyConfig(max_concurrent_envs=2, session_timeout=0.2))
        with server.v1() as wire:
            name, token = started(wire)
            wire.cut()
        time.sleep(0.5)  # more than twice as long as it may be idle
        with server.v1() as wire:
            assert wire.attach(name, token)["type"] == "attached"
            assert total(wire.do("step", name, amount=1)) == 2
            server.wait_for_sessions(0)

    def test_the_server_ends_with_sessions_away(self, serve: Serve) -> None:
        before = set(threading.enumerate())
        server = serve(ThreadedCounterEnvironment)
        with server.v1() as wire:
            started(wire)
            wire.cut()
        server.stop()
        eventually(lambda: not set(threading.enumerate()) - before, "the threads have gone")

    @pytest.mark.parametrize("window_s", [-1, float("nan"), float("inf")])
    def test_what_is_no_window(self, serve: Serve, window_s: float) -> None:
        with pytest.raises(ValueError, match="resume_window_s"):
            serve(resume_window_s=window_s)


@IN_EACH_PLACE
def test_an_error_of_the_server_s_own_ends_one_session_and_is_told(
    serve: Serve, environment: type, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = MemoryRecord.note

    def fail_at_the_goal(record: MemoryRecord, request: V1Request, data_sent: KeptData, data: str) -> None:
        if f'"total":{GOAL}' in data:
            raise ZeroDivisionError
        note(record, request, data_sent, data)

    monkeypatch.setattr(MemoryRecord, "note", fail_at_the_goal)  # no environment can bring this about
    server = serve(environment)
    with server.v1() as wire:
        broken, other = wire.open(), wire.open()
        wire.do("reset", broken)
        wire.do("reset", other)
        failed = wire.do("step", broken, amount=GOAL)
        assert code(failed) == "EXECUTION_ERROR"
        assert failed["data"]["may_have_happened"]
        assert "the session has ended; its log says why" in failed["data"]["message"]
        assert "ZeroDivisionError" in caplog.text
        assert code(wire.do("state", broken)) == "SESSION_ERROR"
        assert total(wire.do("step", other, amount=1)) == 1
    server.wait_for_sessions(0)


@IN_EACH_PLACE
def test_a_refusal_that_can_t_be_kept_ends_one_session_and_is_answered(
    serve: Serve, environment: type, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = MemoryRecord.note

    def fail(
        record: MemoryRecord, request: V1Request, data_sent: KeptData, answer: str, *, failed: bool = False
    ) -> None:
        if failed:  # no environment can bring this about
            raise ZeroDivisionError
        note(record, request, data_sent, answer)

    monkeypatch.setattr(MemoryRecord, "note", fail)
    server = serve(environment)
    with server.v1() as wire:
        names = [wire.open() for _ in range(3)]
        for name in names:
            wire.do("reset", name)
        for name, kind in zip(names, ("dance", "step"), strict=False):  # not a request; a request that is refused
            failed = wire.do(kind, name)
            assert code(failed) == "EXECUTION_ERROR"
            assert "the session has ended; its log says why" in failed["data"]["message"]
            assert code(wire.do("state", name)) == "SESSION_ERROR"
        assert "ZeroDivisionError" in caplog.text
        assert total(wire.do("step", names[2], amount=1)) == 1
    server.wait_for_sessions(0)
