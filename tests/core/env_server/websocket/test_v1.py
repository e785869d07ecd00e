"""v1 of the wire on the server: many sessions on a socket, none of which the others feel."""

import gc
import json
import threading
import tracemalloc
import weakref
from functools import partial
from typing import Any

import pytest
from pydantic import field_validator
from tests.conftest import Serve
from tests.support.environments.common import (
    PLACES,
    Add,
    AsyncCounterEnvironment,
    CounterEnvironment,
    Do,
    Gate,
    GatedEnvironment,
    InlineMischievousEnvironment,
    LaterEnvironment,
    MischievousEnvironment,
    Shown,
    SingleSessionEnvironment,
    StubbornEnvironment,
    ThreadedCounterEnvironment,
    Total,
)
from tests.support.servers import RunningServer, V1Wire, Wire, by_session, eventually
from websockets.typing import Subprotocol

from openenv.core.env_server.types import ConcurrencyConfig
from openenv.core.wire.v1 import ARRAY_BYTES

IN_EACH_PLACE = pytest.mark.parametrize("environment", list(PLACES.values()), ids=list(PLACES))


def total(answer: dict[str, Any]) -> int:
    assert answer["type"] == "observation", answer
    shown: int = answer["data"]["observation"]["total"]
    return shown


def code(answer: dict[str, Any]) -> str:
    assert answer["type"] == "error", answer
    said: str = answer["data"]["code"]
    return said


class TestHandshake:
    @pytest.mark.parametrize("offered", [["openenv.v1"], ["x", "openenv.v1"], ["openenv.v1", "openenv.v2"]])
    def test_v1_is_chosen_among_whatever_is_offered(self, counter_server: RunningServer, offered: list[str]) -> None:
        with Wire(f"ws://127.0.0.1:{counter_server.port}/ws", subprotocols=list(map(Subprotocol, offered))) as wire:
            assert wire.socket.subprotocol == "openenv.v1"
            assert wire.ask({"type": "open", "id": 1})["type"] == "opened"

    @pytest.mark.parametrize("offered", [None, ["x"], ["openenv.v2"], ["OPENENV.V1"]])
    def test_others_get_the_legacy_wire(self, counter_server: RunningServer, offered: list[str] | None) -> None:
        subprotocols = None if offered is None else list(map(Subprotocol, offered))
        with Wire(f"ws://127.0.0.1:{counter_server.port}/ws", subprotocols=subprotocols) as wire:
            assert wire.socket.subprotocol is None
            assert wire.reset() == {
                "type": "observation",
                "data": {"observation": {"metadata": {}, "total": 0}, "reward": None, "done": False},
            }
            assert code(wire.ask({"type": "open", "id": 1})) == "UNKNOWN_TYPE"

    def test_a_session_that_exists_already_is_taken_up_on_the_legacy_wire(self, serve: Serve) -> None:
        server = serve()
        with server.http() as http:
            session = http.post("/reset").headers["X-OpenEnv-Session"]
        url = f"ws://127.0.0.1:{server.port}/ws?session_id={session}"
        with Wire(url, subprotocols=[Subprotocol("openenv.v1")]) as wire:
            assert wire.socket.subprotocol is None
            assert total(wire.step(amount=2)) == 2


class TestOpen:
    def test_the_answer_says_what_the_server_takes(self, serve: Serve) -> None:
        with serve(max_message_size_mb=0.5).v1() as wire:
            answer = wire.ask({"type": "open", "id": 0, "data": {}})
            assert isinstance(answer.pop("session"), str)
            assert len(answer["data"].pop("token")) >= 16
            terms = {"max_message_bytes": 524288, "resume_window_s": 30, "last_id": 0}
            assert answer == {"type": "opened", "id": 0, "data": terms}

    def test_at_capacity_an_open_is_refused_with_the_counts_and_the_socket_goes_on(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=2)
        with server.v1() as wire:
            wire.send([{"type": "open", "id": number} for number in (5, 6, 7)])
            answers = {answer["id"]: answer for answer in wire.receive_many(3)}
            assert answers[7] == {
                "type": "error",
                "id": 7,
                "data": {
                    "message": "Server at capacity: 2/2 sessions active. Cannot accept new connections.",
                    "code": "CAPACITY_REACHED",
                    "active_sessions": 2,
                    "max_sessions": 2,
                },
            }
            first = answers[5]["session"]
            assert wire.do("reset", first)["type"] == "observation"
            wire.send([wire.message("close", first), {"type": "open", "id": 8}])
            assert [answer["type"] for answer in wire.receive_many(2)] == ["closed", "opened"]
            assert server.sessions.active_sessions == 2
        server.wait_for_sessions(0)

    def test_a_factory_that_fails_answers_its_open_alone(self, serve: Serve) -> None:
        made: list[int] = []

        class Bad(CounterEnvironment):
            def __init__(self) -> None:
                super().__init__()
                made.append(1)
                if len(made) == 2:
                    raise RuntimeError("no licence")

        server = serve(Bad)
        with server.v1() as wire:
            wire.send([{"type": "open", "id": number} for number in (1, 2, 3)])
            answers = {answer["id"]: answer for answer in wire.receive_many(3)}
            assert code(answers[2]) == "FACTORY_ERROR"
            assert "session" not in answers[2]
            assert total(wire.do("reset", answers[3]["session"])) == 0
            assert server.sessions.active_sessions == 2

    def test_sessions_of_another_socket_cannot_be_addressed(self, counter_server: RunningServer) -> None:
        with counter_server.v1() as mine, counter_server.v1() as other:
            session = mine.open()
            mine.do("reset", session)
            for kind in ("reset", "step", "state", "close"):
                assert code(other.do(kind, session)) == "SESSION_ERROR"
            assert total(mine.do("step", session, amount=2)) == 2

    @pytest.mark.parametrize("session", ["", "x", "\U0001f600", "a" * 10_000, '"', "\x00"])
    def test_an_unknown_session_is_said_so(self, counter_server: RunningServer, session: str) -> None:
        with counter_server.v1() as wire:
            answer = wire.ask(wire.message("step", session, amount=1))
            assert code(answer) == "SESSION_ERROR"
            assert answer.get("session", "") == session


class TestRequests:
    @IN_EACH_PLACE
    def test_pipelined_requests_are_carried_out_and_answered_in_order(self, serve: Serve, environment: type) -> None:
        with serve(environment).v1() as wire:
            names = wire.open_many(8)
            frame = [wire.message("reset", name) for name in names]
            frame += [wire.message("step", name, amount=1) for _ in range(9) for name in names]
            wire.send(frame)
            answers = by_session(wire.receive_many(len(frame)))
            assert all([total(answer) for answer in answers[name]] == list(range(10)) for name in names)
            assert all([answer["id"] for answer in answers[name]] == list(range(1, 11)) for name in names)

    def test_64_sessions_in_step(self, serve: Serve) -> None:
        with serve(max_concurrent_envs=64).v1() as wire:
            names = wire.open_many(64)
            for kind, data in (("reset", {}), *(("step", {"amount": 1}) for _ in range(9))):
                wire.send([wire.message(kind, name, **data) for name in names])
                assert {answer["session"] for answer in wire.receive_many(64)} == set(names)
            wire.send([wire.message("step", name, amount=1) for name in names])
            assert [total(answer) for answer in wire.receive_many(64)] == [10] * 64

    @pytest.mark.level("command")
    @pytest.mark.parametrize("environment", [AsyncCounterEnvironment, LaterEnvironment])
    def test_more_requests_in_a_frame_than_may_be_under_way(self, serve: Serve, environment: type) -> None:
        number = 17_000
        with serve(environment, max_message_size_mb=4).v1() as wire:
            name = wire.open()
            wire.send([wire.message("reset", name) for _ in range(number)])
            wire.send(wire.message("step", name, amount=3))
            assert {total(wire.receive()) for _ in range(number)} == {0}
            assert total(wire.receive()) == 3

    def test_a_slow_session_holds_up_no_other(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.v1() as wire:
            slow, quick = wire.open_many(2)
            wire.send([wire.message("reset", slow), wire.message("reset", quick)])
            wire.receive_many(2)
            wire.send([wire.message("step", slow, amount=9), wire.message("state", slow)])
            gate.wait_until_entered()
            for expected in range(1, 6):
                assert total(wire.do("step", quick, amount=1)) == expected
            opened_meanwhile = wire.open()
            assert wire.do("close", opened_meanwhile)["type"] == "closed"
            gate.opened.set()
            assert [answer["type"] for answer in wire.receive_many(2)] == ["observation", "state"]

    def test_a_session_that_crashes_yields_one_error(self, serve: Serve) -> None:
        class Picky(Add):
            @field_validator("amount")
            @classmethod
            def look_up(cls, amount: int) -> int:
                return {0: 0, 1: 1}[amount]

        server = serve(action=Picky)
        with server.v1() as wire:
            names = wire.open_many(8)
            wire.send([wire.message("reset", name) for name in names])
            wire.receive_many(8)
            for bad in (0, 7):  # one that fails in its step, one whose action's own validator does
                wire.send([wire.message("step", name, amount=bad if name == names[3] else 1) for name in names])
                answers = wire.receive_many(8)
                assert [answer["type"] for answer in answers].count("observation") == 7
                assert [code(answer) for answer in answers if answer["session"] == names[3]] == ["EXECUTION_ERROR"]
            assert total(wire.do("step", names[3], amount=1)) == 1

    def test_close_gives_the_place_back_and_is_answered_once(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)
        with server.v1() as wire:
            for _ in range(3):
                name = wire.open()
                wire.do("reset", name)
                wire.send([wire.message(kind, name) for kind in ("close", "close", "state", "step")])
                answers = wire.receive_many(4)
                assert [answer["type"] for answer in answers] == ["closed", "error", "error", "error"]
                assert {code(answer) for answer in answers[1:]} == {"SESSION_ERROR"}
                server.wait_for_sessions(0)
            assert code(wire.do("close", name)) == "SESSION_ERROR"

    def test_close_does_not_wait_for_its_place_behind_a_step_that_hangs(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=1)
        with server.v1() as wire:
            hanging = wire.open()
            wire.do("reset", hanging)
            wire.send([wire.message("step", hanging, amount=9), wire.message("close", hanging)])
            server.wait_for_sessions(0)
            other = wire.open()
            assert total(wire.do("reset", other)) == 0
            gate.opened.set()
            assert [answer["type"] for answer in wire.receive_many(2)] == ["observation", "closed"]
            eventually(lambda: "close" in gate.calls, "the environment is closed")

    @IN_EACH_PLACE
    def test_a_repeated_id_is_answered_again_and_not_carried_out_again(self, serve: Serve, environment: type) -> None:
        with serve(environment).v1() as wire:
            name = wire.open()
            wire.do("reset", name)
            step = wire.message("step", name, amount=1)
            wire.send([step] * 3)
            assert [(answer["id"], total(answer)) for answer in wire.receive_many(3)] == [(2, 1)] * 3
            assert total(wire.ask(step)) == 1
            assert total(wire.do("step", name, amount=1)) == 2

    @pytest.mark.parametrize("number", [0, 1, 4, 2**53 - 1])
    def test_an_id_out_of_turn_does_nothing(self, counter_server: RunningServer, number: int) -> None:
        with counter_server.v1() as wire:
            name = wire.open()
            wire.do("reset", name)
            wire.do("step", name, amount=1)
            refused = wire.ask({"type": "step", "id": number, "session": name, "data": {"amount": 5}})
            assert (code(refused), refused["id"]) == ("VALIDATION_ERROR", number)
            assert "Expected the id 3" in refused["data"]["message"]
            assert total(wire.do("step", name, amount=1)) == 2

    def test_a_refused_request_uses_its_number_up(self, counter_server: RunningServer) -> None:
        with counter_server.v1() as wire:
            name = wire.open()
            for bad in ({"data": 5}, {"data": {}, "more": 1}, {"data": {"amount": "much"}}):
                number = wire.message("step", name)["id"]
                answers = [wire.ask({"type": "step", "id": number, "session": name, **bad}) for _ in range(2)]
                assert code(answers[0]) in ("VALIDATION_ERROR", "SESSION_ERROR")
                assert answers[0] == answers[1]
            assert total(wire.do("reset", name)) == 0


class TestRefusals:
    @pytest.mark.parametrize("number", [-1, True, 1.0, 2**53, "1", None, [], 10**4000])
    def test_what_is_no_id(self, counter_server: RunningServer, number: Any) -> None:
        with counter_server.v1() as wire:
            name = wire.open()
            for message in ({"type": "open", "id": number}, {"type": "reset", "id": number, "session": name}):
                answer = wire.ask(message)
                assert code(answer) == "VALIDATION_ERROR"
                assert "Expected an id from 0 to 9007199254740991" in answer["data"]["message"]
                assert "id" not in answer
                assert answer.get("session") == message.get("session")

    @pytest.mark.parametrize("number", [0, 1, 2**53 - 1])
    def test_what_is_an_id(self, counter_server: RunningServer, number: int) -> None:
        with counter_server.v1() as wire:
            name = wire.ask({"type": "open", "id": number})["session"]
            assert wire.ask({"type": "state", "id": number, "session": name})["id"] == number
            assert wire.ask({"type": "state", "id": number, "session": "x"})["id"] == number
            assert wire.ask({"type": "bogus", "id": number, "session": name})["id"] == number

    @pytest.mark.parametrize(
        ("frame", "expected"),
        [
            ("", "INVALID_JSON"),
            ("[", "INVALID_JSON"),
            ("[]", "VALIDATION_ERROR"),
            (b"[]", "VALIDATION_ERROR"),
            (b"\xff", "VALIDATION_ERROR"),
            ("3", "VALIDATION_ERROR"),
            ("null", "VALIDATION_ERROR"),
            ([[]], "VALIDATION_ERROR"),
            ([[{"type": "open", "id": 1}]], "VALIDATION_ERROR"),
            ({}, "VALIDATION_ERROR"),
            ({"type": "open"}, "VALIDATION_ERROR"),
            ({"type": "reset"}, "VALIDATION_ERROR"),
            ({"type": "reset", "id": 1}, "VALIDATION_ERROR"),
            ({"type": "reset", "id": 1, "session": 1}, "VALIDATION_ERROR"),
            ({"type": "open", "id": 1, "session": "x"}, "VALIDATION_ERROR"),
            ({"type": "open", "id": 1, "data": None}, "VALIDATION_ERROR"),
            ({"type": "open", "id": 1, "data": {"x": 1}}, "VALIDATION_ERROR"),
            ({"type": "open", "id": 1, "data": {"max_message_bytes": 0}}, "VALIDATION_ERROR"),
            ({"type": "open", "id": 1, "data": {"max_message_bytes": 1.5}}, "VALIDATION_ERROR"),
            ({"type": "opened", "id": 1, "session": "x"}, "UNKNOWN_TYPE"),
            ({"type": ["open"], "id": 1, "session": "x"}, "UNKNOWN_TYPE"),
            ({"id": 1, "session": "x"}, "UNKNOWN_TYPE"),
            ("[" * 100_000, "INVALID_JSON"),
            ('[{"type": "\\ud800", "id": 1}]', "INVALID_JSON"),
        ],
        ids=lambda value: repr(value)[:40],
    )
    def test_a_bad_frame_gets_its_error_and_the_sessions_go_on(
        self, counter_server: RunningServer, frame: Any, expected: str
    ) -> None:
        with counter_server.v1() as wire:
            name = wire.open()
            wire.do("reset", name)
            assert code(wire.ask(frame)) == expected
            assert total(wire.do("step", name, amount=2)) == 2

    def test_good_and_bad_in_one_array(self, counter_server: RunningServer) -> None:
        with counter_server.v1() as wire:
            name = wire.open()
            good = wire.message("reset", name), wire.message("step", name, amount=1)
            wire.send([good[0], 1, {"type": "step", "id": 8, "session": name}, None, good[1]])
            assert [answer.get("id") for answer in wire.receive_many(5)] == [
                good[0]["id"],
                None,
                8,
                None,
                good[1]["id"],
            ]

    def test_a_refusal_waits_for_the_answers_before_it(self, serve: Serve, gate: Gate) -> None:
        with serve(partial(GatedEnvironment, gate)).v1() as wire:
            name = wire.open()
            wire.do("reset", name)
            wire.send([wire.message("step", name, amount=9), {"type": "step", "id": 8, "session": name}])
            gate.wait_until_entered()
            gate.opened.set()
            assert [answer["type"] for answer in wire.receive_many(2)] == ["observation", "error"]


class TestLengths:
    LIMIT = 4096

    def test_a_message_alone_and_in_an_array(self, serve: Serve) -> None:
        with serve(max_message_size_mb=self.LIMIT / 1024 / 1024).v1() as wire:
            name = wire.open()
            fitting = json.dumps(wire.message("reset", name, episode_id="é"), ensure_ascii=False)
            fitting += " " * (self.LIMIT - len(fitting.encode()))
            assert total(wire.ask(fitting)) == 0
            refused = wire.ask(fitting + " ")
            assert code(refused) == "TOO_LARGE"
            assert (refused["data"]["limit"], refused["data"]["size"]) == (self.LIMIT, self.LIMIT + 1)
            assert refused["session"] == name
            assert "id" in refused
            assert total(wire.ask(f"[{fitting},{fitting}]")) == 0
            assert total(wire.receive()) == 0
            spaces = " " * (ARRAY_BYTES - 2)
            too_long = wire.ask(f"[{fitting}{spaces} ]")
            assert code(too_long) == "TOO_LARGE"
            assert "id" not in too_long
            assert total(wire.ask(f"[{fitting}{spaces}]")) == 0

    def test_an_answer_that_is_too_long_for_its_client(self, serve: Serve) -> None:
        table = {"long": lambda: Shown(value="é" * 500), "short": lambda: Shown(value="s")}
        with serve(partial(MischievousEnvironment, table), Do, Shown).v1() as wire:
            narrow, wide = wire.open(max_message_bytes=1000), wire.open()
            for name in (narrow, wide):
                wire.do("reset", name)
            refused = wire.do("step", narrow, what="long")
            assert code(refused) == "TOO_LARGE"
            assert refused["data"]["may_have_happened"] is True
            assert refused["data"]["limit"] == 1000
            assert wire.do("step", narrow, what="short")["type"] == "observation"
            assert wire.do("step", wide, what="long")["type"] == "observation"

    def test_no_frame_is_longer_than_a_client_allows_for(self, serve: Serve) -> None:
        limit, text = 20_000, "漢" * 6_000
        server = serve(partial(InlineMischievousEnvironment, {"long": lambda: Shown(value=text)}), Do, Shown)
        with server.v1() as wire:
            names = [wire.open(max_message_bytes=limit) for _ in range(8)]
            wire.send([wire.message("reset", name) for name in names])
            wire.receive_many(8)
            wire.send([wire.message("step", name, what="long") for name in names * 8])
            arrived = 0
            while arrived < 64:
                frame = wire.socket.recv(timeout=60)
                assert len(str(frame).encode()) <= limit + ARRAY_BYTES
                answers = json.loads(frame)
                arrived += len(answers) if isinstance(answers, list) else 1


class TestTime:
    IDLE = ConcurrencyConfig(max_concurrent_envs=4, session_timeout=0.05)

    def test_an_idle_session_ends_and_says_so(self, serve: Serve) -> None:
        server = serve(concurrency_config=self.IDLE)
        with server.v1() as wire:
            name = wire.open()
            server.wait_for_sessions(0)
            answers = [wire.do(kind, name) for kind in ("reset", "reset", "close")]
            assert {code(answer) for answer in answers} == {"SESSION_ERROR"}
            assert "idle" in answers[0]["data"]["message"]
            name = wire.open()
            server.wait_for_sessions(0)
            wire.send([wire.message("state", name), wire.message("close", name), wire.message("close", name)])
            assert {code(answer) for answer in wire.receive_many(3)} == {"SESSION_ERROR"}

    def test_sessions_that_ended_unnoticed_leave_nothing_on_their_socket(self, serve: Serve) -> None:
        alive: weakref.WeakSet[CounterEnvironment] = weakref.WeakSet()

        def factory() -> CounterEnvironment:
            environment = CounterEnvironment()
            alive.add(environment)
            return environment

        server = serve(factory, concurrency_config=self.IDLE)
        with server.v1() as wire:
            for _ in range(5):
                wire.open_many(4)
                server.wait_for_sessions(0)
            wire.open()
            gc.collect()
            assert len(alive) <= 4

    def test_a_step_that_takes_too_long_is_its_session_s_alone(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), step_timeout_s=0.05, reset_timeout_s=0.05)
        with server.v1() as wire:
            slow, quick = wire.open_many(2)
            wire.send([wire.message("reset", name) for name in (slow, quick)])
            wire.receive_many(2)
            answer = wire.do("step", slow, amount=9)
            assert code(answer) == "TIMEOUT"
            assert answer["data"]["may_have_happened"] is True
            assert total(wire.do("step", quick, amount=1)) == 1
            assert code(wire.do("reset", slow)) == "TIMEOUT"
            gate.opened.set()
            assert wire.do("close", slow)["type"] == "closed"


class TestEndings:
    def test_a_close_with_a_wrong_id_ends_no_session_that_is_busy(self, serve: Serve, gate: Gate) -> None:
        with serve(partial(GatedEnvironment, gate)).v1() as wire:
            session = wire.open()
            wire.do("reset", session)
            wire.send(wire.message("step", session, amount=9))
            gate.wait_until_entered()
            wire.send([{"type": "close", "id": number, "session": session} for number in (1, 2, 999)])
            wire.send({"type": "open", "id": 1})  # answered once the closes have been read
            assert wire.receive()["type"] == "opened"
            gate.opened.set()
            answers = wire.receive_many(4)
            assert total(answers[0]) == 9
            assert [code(answers[1]), total(answers[2]), code(answers[3])] == [
                "VALIDATION_ERROR",
                9,
                "VALIDATION_ERROR",
            ]
            assert total(wire.do("step", session, amount=1)) == 10

    @pytest.mark.parametrize("cut", [V1Wire.close, V1Wire.cut], ids=["close", "cut"])
    @IN_EACH_PLACE
    def test_a_socket_that_ends_ends_its_sessions(self, serve: Serve, environment: type, cut: Any) -> None:
        server = serve(environment, max_concurrent_envs=8, resume_window_s=0)
        before = set(threading.enumerate())
        with server.v1() as stays:
            stayed = stays.open()
            for _ in range(3):
                with server.v1() as wire:
                    names = wire.open_many(7)
                    wire.send([wire.message("reset", name) for name in names])
                    wire.receive()
                    cut(wire)
                    server.wait_for_sessions(1)
            assert total(stays.do("reset", stayed)) == 0
        server.wait_for_sessions(0)
        eventually(lambda: not set(threading.enumerate()) - before, "the threads have gone")

    def test_a_client_that_goes_while_its_steps_run(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), resume_window_s=0)
        with server.v1() as wire:
            names = wire.open_many(3)
            wire.send([wire.message("reset", name) for name in names])
            wire.receive_many(3)
            wire.send([wire.message("step", name, amount=9) for name in names for _ in range(5)])
            for _ in names:
                gate.wait_until_entered()
            wire.cut()
            server.wait_for_sessions(0)
        gate.opened.set()
        eventually(lambda: gate.calls.count("close") == 3, "the environments are closed")
        assert gate.calls.count("step") == 3, "what had not begun is not carried out"

    def test_a_client_that_goes_while_its_session_is_opened(self, serve: Serve, gate: Gate) -> None:
        class SlowToMake(GatedEnvironment):
            def __init__(self) -> None:
                super().__init__(gate)
                gate.pass_through()

        server = serve(SlowToMake)
        with server.v1() as wire:
            wire.send({"type": "open", "id": 1})
            gate.wait_until_entered()
            wire.cut()
            server.wait_for_sessions(0)
        gate.opened.set()
        eventually(lambda: "close" in gate.calls, "the environment is closed")

    @pytest.mark.parametrize("end", [lambda: Total(total=1), lambda: float("one")], ids=["returns", "raises"])
    def test_a_coroutine_that_resists_holds_its_own_place_only(self, serve: Serve, gate: Gate, end: Any) -> None:
        server = serve(partial(StubbornEnvironment, gate, end), resume_window_s=0)
        with server.v1() as wire:
            names = wire.open_many(3)
            wire.send([wire.message("reset", name) for name in names])
            wire.receive_many(3)
            wire.send([wire.message("step", names[0], amount=9) for _ in range(3)])
            gate.wait_until_entered()
            wire.cut()
            server.wait_for_sessions(1)
            eventually(lambda: "cancelled" in gate.calls, "the step is cancelled")
            gate.opened.set()
            server.wait_for_sessions(0)
        assert gate.calls.count("step") == 1

    def test_the_server_ends_with_sockets_open(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.v1() as busy, server.v1() as idle:
            name, _ = busy.open(), idle.open()
            busy.do("reset", name)
            busy.send(busy.message("step", name, amount=9))
            gate.wait_until_entered()
            gate.opened.set()
            server.stop()

    @pytest.mark.level("process")
    @pytest.mark.parametrize("environment", [CounterEnvironment, ThreadedCounterEnvironment])
    def test_1000_sessions_leave_no_thread_and_no_memory(self, serve: Serve, environment: type) -> None:
        server = serve(environment, max_concurrent_envs=1000)
        with server.v1() as wire:
            before = threading.active_count()
            play_1000(wire)
            eventually(lambda: threading.active_count() == before, "the threads have gone", timeout_s=60)
            tracemalloc.start()
            try:
                play_1000(wire)
                eventually(lambda: threading.active_count() == before, "the threads have gone", timeout_s=60)
                gc.collect()
                grown, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        # The JSON parser keeps up to 16,384 short strings, such as names of sessions; a session has some 3,000 bytes.
        assert grown < 1_000_000, f"{grown} bytes are left of 1,000 sessions"


def play_1000(wire: V1Wire) -> None:
    names = wire.open_many(1000)
    for kind in ("reset", "step"):
        wire.send([wire.message(kind, name, **({"amount": 1} if kind == "step" else {})) for name in names])
    assert sum(total(wire.receive(timeout_s=60)) for _ in range(2000)) == 1000
    wire.send([wire.message("close", name) for name in names])
    assert {wire.receive(timeout_s=60)["type"] for _ in names} == {"closed"}


class TestBackpressure:
    """A client that asks and does not read makes the server wait, not grow."""

    @pytest.mark.parametrize("place", [MischievousEnvironment, CounterEnvironment])
    def test_a_client_that_does_not_read_stops_its_sessions(self, serve: Serve, place: type) -> None:
        steps: list[int] = []

        class Talkative(MischievousEnvironment):
            BLOCKING = place is MischievousEnvironment

            def step(self, action: Do) -> Any:
                steps.append(1)
                return Shown(value="x" * 100_000)

        server = serve(partial(Talkative, {}), Do, Shown)
        with server.v1() as silent, server.v1() as wire:
            name, other = silent.open(), wire.open()
            silent.do("reset", name)
            wire.do("reset", other)
            silent.send([silent.message("step", name, what="x") for _ in range(400)])
            eventually(lambda: len(steps) > 2, "the session steps")
            for _ in range(500):  # time enough to go on, for a server that would
                assert wire.do("state", other)["type"] == "state"
            assert len(steps) < 200, "the sockets' own buffers take less"
            assert {silent.receive()["type"] for _ in range(400)} == {"observation"}

    def test_a_client_that_goes_without_having_read(self, serve: Serve) -> None:
        table = {"long": lambda: Shown(value="x" * 250_000)}
        server = serve(partial(MischievousEnvironment, table), Do, Shown, resume_window_s=0)
        with server.v1() as wire:
            names = wire.open_many(4)
            wire.send([wire.message("reset", name) for name in names])
            wire.receive_many(4)
            wire.send([wire.message("step", name, what="long") for _ in range(50) for name in names])
            wire.receive()
            wire.cut()
            server.wait_for_sessions(0)
