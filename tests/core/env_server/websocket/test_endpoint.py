"""The WebSocket transport, frame by frame."""

import asyncio
import json
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    AsyncMischievousEnvironment,
    CounterEnvironment,
    Do,
    Gate,
    GatedEnvironment,
    InlineMischievousEnvironment,
    Mischief,
    MischievousEnvironment,
    Shown,
    SingleSessionEnvironment,
    Total,
)
from tests.support.servers import RunningServer, ServerProcess, Wire
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.interfaces import Environment


def refusal(answer: dict[str, Any]) -> tuple[str, str]:
    """Return an error frame's code and message."""
    assert answer["type"] == "error", answer
    return answer["data"]["code"], answer["data"]["message"]


def assert_still_usable(wire: Wire) -> None:
    assert wire.reset()["type"] == "observation"
    assert wire.step(amount=3)["data"]["observation"]["total"] == 3


class TestEpisode:
    def test_state_is_answered_before_the_first_reset(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            assert wire.state() == {"type": "state", "data": {"episode_id": None, "step_count": 0}}

    def test_reset_without_data(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            assert wire.ask({"type": "reset"}) == {
                "type": "observation",
                "data": {"observation": {"metadata": {}, "total": 0}, "reward": None, "done": False},
            }

    def test_metadata_stands_inside_and_beside_the_observation(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            assert wire.reset(seed=7, episode_id="abc", unknown="dropped") == {
                "type": "observation",
                "data": {
                    "observation": {"metadata": {"seed": 7}, "total": 0},
                    "reward": None,
                    "done": False,
                    "metadata": {"seed": 7},
                },
            }
            assert wire.state()["data"] == {"episode_id": "abc", "step_count": 0}

    def test_step_carries_the_bare_action(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            wire.reset()
            assert wire.step(amount=4) == {
                "type": "observation",
                "data": {"observation": {"metadata": {}, "total": 4}, "reward": 4, "done": False},
            }
            assert wire.state()["data"]["step_count"] == 1

    @pytest.mark.parametrize("seed", [-1, 2**70, None, "7"])
    def test_the_range_of_reset_arguments_is_the_environment_s_to_check(
        self, counter_server: RunningServer, seed: Any
    ) -> None:
        with counter_server.wire() as wire:
            assert wire.reset(seed=seed)["type"] == "observation"

    def test_close_is_answered_by_a_normal_closure(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            wire.send({"type": "close"})
            with pytest.raises(ConnectionClosedOK) as closed:
                wire.receive()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1000

    def test_frames_sent_ahead_are_answered_in_order(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            wire.send({"type": "reset"})
            for _ in range(9):
                wire.send({"type": "step", "data": {"amount": 1}})
            wire.send("not json")
            wire.send({"type": "state"})
            assert wire.receive()["data"]["observation"]["total"] == 0
            assert [wire.receive()["data"]["observation"]["total"] for _ in range(9)] == list(range(1, 10))
            assert refusal(wire.receive())[0] == "INVALID_JSON"
            assert wire.receive()["data"]["step_count"] == 9

    def test_a_message_in_fragments_is_one_message(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            wire.socket.send(['{"type":', ' "re', 'set"}'])
            assert wire.receive()["type"] == "observation"


class TestOrder:
    def test_a_step_before_reset_is_refused_and_a_reset_mends_it(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            answer = wire.step(amount=1)
            assert answer["data"]["reset_needed"] is True
            assert refusal(answer)[0] == "SESSION_ERROR"
            assert_still_usable(wire)

    def test_a_step_after_done_is_refused_and_a_reset_mends_it(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            wire.reset()
            assert wire.step(amount=10)["data"]["done"] is True
            answer = wire.step(amount=1)
            assert answer["data"]["reset_needed"] is True
            assert refusal(answer)[0] == "SESSION_ERROR"
            assert wire.state()["data"]["step_count"] == 1
            assert_still_usable(wire)

    def test_both_reach_an_environment_that_does_not_require_a_reset(self, serve: Serve) -> None:
        class Lenient(CounterEnvironment):
            REQUIRES_RESET = Environment.REQUIRES_RESET

        with serve(Lenient).wire() as wire:
            assert wire.step(amount=10)["data"]["done"] is True
            assert wire.step(amount=1)["data"]["observation"]["total"] == 11

    def test_an_invalid_action_is_named_even_out_of_order(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            assert refusal(wire.step(nope=1))[0] == "VALIDATION_ERROR"


class TestRefusals:
    def test_missing_and_unknown_fields_are_listed_relative_to_the_action(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            wire.reset()
            answer = wire.step(amont=1)
            assert refusal(answer) == ("VALIDATION_ERROR", "Invalid message")
            errors = [{name: entry[name] for name in entry if name != "url"} for entry in answer["data"]["errors"]]
            assert errors == [
                {"type": "missing", "loc": ["amount"], "msg": "Field required", "input": {"amont": 1}},
                {"type": "extra_forbidden", "loc": ["amont"], "msg": "Extra inputs are not permitted", "input": 1},
            ]
            assert wire.step(amount=2)["data"]["observation"]["total"] == 2

    @pytest.mark.parametrize(
        ("frame", "code"),
        [
            ("not json", "INVALID_JSON"),
            ("", "INVALID_JSON"),
            ('{"type": "reset"', "INVALID_JSON"),
            ('{"type": "reset"} trailing', "INVALID_JSON"),
            ("[1,2]", "VALIDATION_ERROR"),
            ('"reset"', "VALIDATION_ERROR"),
            ("null", "VALIDATION_ERROR"),
            ("3", "VALIDATION_ERROR"),
            (b'{"type": "reset"}', "VALIDATION_ERROR"),
            (b"\xff\xfe", "VALIDATION_ERROR"),
            ("{}", "UNKNOWN_TYPE"),
            ({"type": "bogus"}, "UNKNOWN_TYPE"),
            ({"type": None}, "UNKNOWN_TYPE"),
            ({"type": ["reset"]}, "UNKNOWN_TYPE"),
            ({"type": {"reset": 1}}, "UNKNOWN_TYPE"),
            ({"type": 10**400}, "UNKNOWN_TYPE"),
            ('{"type": "\\ud800"}', "INVALID_JSON"),
            ({"type": "step"}, "VALIDATION_ERROR"),
            ({"type": "step", "data": None}, "VALIDATION_ERROR"),
            ({"type": "step", "data": [1]}, "VALIDATION_ERROR"),
            ({"type": "step", "data": {"amount": 1}, "x": 1}, "VALIDATION_ERROR"),
            ({"type": "step", "data": {"amount": "one"}}, "VALIDATION_ERROR"),
            ({"type": "step", "data": {"amount": float("nan")}}, "VALIDATION_ERROR"),
            ({"type": "step", "data": {"amount": float("inf")}}, "VALIDATION_ERROR"),
            ('{"type": "step", "data": {"amount": %s}}' % ("9" * 5000), "INVALID_JSON"),
            ({"type": "reset", "data": {}, "x": 1}, "VALIDATION_ERROR"),
            ({"type": "reset", "data": "hard"}, "VALIDATION_ERROR"),
            ({"type": "state", "data": {}}, "VALIDATION_ERROR"),
            ({"type": "close", "data": {}}, "VALIDATION_ERROR"),
            ("[" * 100_000, "INVALID_JSON"),
            ('{"type":' * 100_000, "INVALID_JSON"),
            ({"type": "mcp"}, "VALIDATION_ERROR"),
        ],
        ids=lambda value: repr(value)[:40],
    )
    def test_a_bad_frame_gets_its_error_and_the_session_goes_on(
        self, counter_server: RunningServer, frame: Any, code: str
    ) -> None:
        with counter_server.wire() as wire:
            wire.reset()
            wire.step(amount=1)
            assert refusal(wire.ask(frame))[0] == code
            assert wire.step(amount=1)["data"]["observation"]["total"] == 2

    def test_the_public_server_s_own_sentences(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            assert refusal(wire.ask("not json")) == (
                "INVALID_JSON",
                "Invalid JSON: Expecting value: line 1 column 1 (char 0)",
            )
            assert refusal(wire.ask({"type": "bogus"})) == ("UNKNOWN_TYPE", "Unknown message type: bogus")
            assert refusal(wire.ask({})) == ("UNKNOWN_TYPE", "Unknown message type: ")

    def test_mcp_is_refused_in_its_own_form(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            request = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
            assert wire.ask({"type": "mcp", "data": request}) == {
                "type": "mcp",
                "data": {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "error": {"code": -32601, "message": "Method not found: initialize", "data": None},
                },
            }

    @pytest.mark.parametrize(
        "frame",
        [
            {"type": "x" * 1_000_000},
            {"type": ["x" * 1_000_000]},
            {"type": "step", "data": {"amount": "x" * 1_000_000}},
            {"type": "step", "data": {"x" * 1_000_000: 1}},
            {"type": "step", "data": {str(number): 1 for number in range(100_000)}},
        ],
        ids=["type", "list type", "value", "key", "many keys"],
    )
    def test_a_refusal_does_not_throw_a_megabyte_back(self, counter_server: RunningServer, frame: Any) -> None:
        with counter_server.wire() as wire:
            wire.send(frame)
            assert len(wire.socket.recv(timeout=60)) < 100_000

    def test_an_illegal_action_leaves_the_episode_as_it_was(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            wire.reset()
            wire.step(amount=4)
            answer = wire.step(amount=-1)
            assert refusal(answer) == ("VALIDATION_ERROR", "Expected a positive amount, got -1.")
            assert answer["data"]["errors"][0]["type"] == "illegal_action"
            assert wire.step(amount=1)["data"]["observation"]["total"] == 5

    def test_what_the_environment_raised_is_an_execution_error(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            wire.reset()
            wire.step(amount=4)
            assert wire.step(amount=0) == {
                "type": "error",
                "data": {"message": "kaboom", "code": "EXECUTION_ERROR"},
            }
            assert wire.step(amount=1)["data"]["observation"]["total"] == 5

    def test_text_that_is_no_utf8_closes_only_its_own_socket(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire, counter_server.wire() as other:
            wire.socket.send(b"\xff", text=True)
            with pytest.raises(ConnectionClosed):
                wire.receive()
            assert_still_usable(other)


class ReprError(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("not even this")


class Undecided:
    """A value that is neither true nor false, as an array of several flags is."""

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


class OwnInterrupt(BaseException):
    """What some libraries derive from BaseException on purpose."""


def raising(error: BaseException) -> Any:
    def mischief() -> Any:
        raise error

    return mischief


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


FAILURES: dict[str, Any] = {
    "exit": raising(SystemExit(3)),
    "quit": raising(SystemExit()),
    "interrupt": raising(KeyboardInterrupt()),
    "stop": raising(StopIteration()),
    "async stop": raising(StopAsyncIteration()),
    "cancelled": raising(asyncio.CancelledError()),
    "generator exit": raising(GeneratorExit()),
    "own base exception": raising(OwnInterrupt("stop it")),
    "timeout": raising(TimeoutError("not ours")),
    "os error": raising(BrokenPipeError("not our pipe")),
    "no text": raising(ValueError()),
    "unshowable": raising(ReprError()),
    "surrogate text": raising(ValueError("half a character: \ud800")),
    "null character": raising(ValueError("a\x00b")),
    "nothing": lambda: None,
    "number": lambda: 3,
    "dictionary": lambda: {"value": 1},
    "class": lambda: Shown,
    "empty tuple": lambda: (),
    "tuple of one": lambda: (Shown(),),
    "tuple without observation": lambda: ("x", 1.0, True),
    "tuple of six": lambda: (Shown(), 1.0, True, False, {}, 1),
    "tuple with text as reward": lambda: (Shown(), "much", True),
    "undecided done": lambda: (Shown(), 1.0, Undecided()),
    "undecided truncated": lambda: (Shown(), 1.0, False, Undecided(), {}),
    "NaN reward": lambda: Shown(reward=float("nan")),
    "infinite reward": lambda: Shown(reward=float("inf")),
    "NaN reward in tuple": lambda: (Shown(), float("nan"), False),
    "object": lambda: Shown(value=object()),
    "half a character": lambda: Shown(value="\ud800"),
    "half a character as key": lambda: Shown(value={"\ud800": 1}),
    "bytes that are no text": lambda: Shown(value=b"\xff"),
    "circular": lambda: Shown(value=circular()),
    "circular metadata": lambda: Shown(metadata=circular()),
    "circular info": lambda: (Shown(), 1.0, False, False, circular()),
    "nested too deep": lambda: Shown(value=nested(100_000)),
    "key that is no text": lambda: Shown(value={object(): 1}),
}

SUCCESSES: dict[str, tuple[Any, Any]] = {
    "NaN": (float("nan"), None),
    "infinity in a list": ([float("-inf"), 1.5], [None, 1.5]),
    "huge number": (10**300, 10**300),
    "bytes": (b"text", "text"),
    "keys that are numbers": ({1: {2}}, {"1": [2]}),
    "odd characters": ("\x00\u2028\U0001f600", "\x00\u2028\U0001f600"),
    "nested": (nested(100), nested(100)),
}

REWARDS = {"true": True, "false": False, "zero": 0, "negative": -3, "float": 0.25, "huge": 10**300}

TABLE: dict[str, Mischief] = (
    FAILURES
    | {name: partial(Shown, value=value) for name, (value, _) in SUCCESSES.items()}
    | {name: partial(Shown, reward=reward) for name, reward in REWARDS.items()}
    | {f"{name} in tuple": partial(lambda reward: (Shown(), reward, False), reward) for name, reward in REWARDS.items()}
)

CLASSES = {
    "thread": MischievousEnvironment,
    "inline": InlineMischievousEnvironment,
    "async": AsyncMischievousEnvironment,
}
PLACES = pytest.mark.parametrize("place", list(CLASSES.values()), ids=list(CLASSES))


@pytest.fixture(scope="module", params=list(CLASSES))
def mischief_server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    app = create_fastapi_app(partial(CLASSES[request.param], TABLE), Do, Shown, max_concurrent_envs=64)
    with RunningServer(app) as server:
        yield server


@pytest.fixture
def mischief(mischief_server: RunningServer) -> Iterator[Wire]:
    """A socket to an environment that does any mischief of the table; nothing may go unhandled."""
    with mischief_server.wire() as wire:
        wire.reset()
        yield wire
    mischief_server.assert_no_errors()


class TestServer:
    """What runs the application: our commands, or another server, as a client of tests does here."""

    @pytest.mark.parametrize(("address", "warnings"), [("203.0.113.5", 1), ("2001:db8::1", 1), ("127.0.0.1", 0)])
    def test_one_without_limits_for_connections_is_warned_of_once(
        self, caplog: pytest.LogCaptureFixture, address: str, warnings: int
    ) -> None:
        app = create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=2, auth="none")
        caplog.clear()
        with TestClient(app, client=(address, 4711)) as client:
            for subprotocols in (None, ["openenv.v1"]):
                with client.websocket_connect("ws://127.0.0.1/ws", subprotocols=subprotocols):
                    pass
        logged = [record.getMessage() for record in caplog.records if "limit connections" in record.getMessage()]
        assert len(logged) == warnings
        assert all("--http and --ws" in message for message in logged)


class TestMischief:
    @pytest.mark.parametrize("what", FAILURES)
    def test_an_environment_s_mischief_is_an_execution_error_and_the_session_goes_on(
        self, mischief: Wire, what: str
    ) -> None:
        code, message = refusal(mischief.step(what=what))
        assert code == "EXECUTION_ERROR"
        assert message
        assert "site-packages" not in message, "a path of the server"
        assert mischief.step(what="fine")["data"]["observation"]["value"] == "fine"

    @pytest.mark.parametrize("what", SUCCESSES)
    def test_what_can_be_sent_is_sent(self, mischief: Wire, what: str) -> None:
        assert mischief.step(what=what)["data"]["observation"]["value"] == SUCCESSES[what][1]

    @pytest.mark.parametrize("what", REWARDS)
    def test_a_reward_keeps_its_kind(self, mischief: Wire, what: str) -> None:
        for name in (what, f"{what} in tuple"):
            answered = mischief.step(what=name)["data"]["reward"]
            assert (answered, type(answered)) == (REWARDS[what], type(REWARDS[what]))

    @PLACES
    def test_mischief_in_reset_and_state(self, serve: Serve, place: type[MischievousEnvironment]) -> None:
        class Unwilling(place):  # type: ignore[misc, valid-type]
            def reset(self) -> Any:
                raise SystemExit(1)

            @property
            def state(self) -> Any:
                raise StopIteration

        with serve(partial(Unwilling, {}), Do, Shown).wire() as wire:
            assert refusal(wire.reset())[0] == "EXECUTION_ERROR"
            assert refusal(wire.state())[0] == "EXECUTION_ERROR"
            assert refusal(wire.step(what="fine"))[0] == "SESSION_ERROR"

    @PLACES
    @pytest.mark.parametrize(
        "error",
        [SystemExit(1), ValueError("no"), KeyboardInterrupt(), OwnInterrupt()],
        ids=lambda error: type(error).__name__,
    )
    def test_mischief_in_close_gives_the_place_back_all_the_same(
        self, serve: Serve, place: type[MischievousEnvironment], error: BaseException
    ) -> None:
        class Unwilling(place):  # type: ignore[misc, valid-type]
            def close(self) -> None:
                raise error

        server = serve(partial(Unwilling, {}), Do, Shown, max_concurrent_envs=1)
        with server.wire() as wire:
            wire.reset()
        server.wait_for_sessions(0)
        with server.wire() as wire:
            assert wire.reset()["type"] == "observation"

    @pytest.mark.parametrize("state", [None, 42, "text", pytest.param(object(), id="object")], ids=repr)
    def test_a_state_that_is_no_state_is_an_execution_error(self, serve: Serve, state: Any) -> None:
        class Stateless(CounterEnvironment):
            @property
            def state(self) -> Any:
                return state

        with serve(Stateless).wire() as wire:
            assert refusal(wire.state())[0] == "EXECUTION_ERROR"


class TestArguments:
    """Names of task parameters that the server's own functions use as well."""

    NAMES = ("function", "args", "kwargs", "method", "values", "timeout_s", "operation", "call", "arguments", "name")

    class Task(CounterEnvironment):
        def reset(self, seed: int | None = None, **task: Any) -> Any:  # type: ignore[override]
            return Shown(value=task)

    class ThreadedTask(Task):
        BLOCKING = True

    class AsyncTask(CounterEnvironment):
        async def reset(self, seed: int | None = None, **task: Any) -> Any:  # type: ignore[override]
            return Shown(value=task)

    @pytest.mark.parametrize("environment", [Task, ThreadedTask, AsyncTask])
    def test_a_task_parameter_may_have_any_name(self, serve: Serve, environment: Any) -> None:
        with serve(environment).wire() as wire:
            for name in self.NAMES:
                assert wire.reset(**{name: "x"})["data"]["observation"]["value"] == {name: "x"}

    @pytest.mark.parametrize("environment", [Task, ThreadedTask, AsyncTask])
    def test_self_cannot_be_passed(self, serve: Serve, environment: Any) -> None:
        with serve(environment).wire() as wire:
            assert refusal(wire.ask({"type": "reset", "data": {"self": 1}}))[0] == "EXECUTION_ERROR"
            assert wire.reset()["type"] == "observation"


class TestLengths:
    def test_a_message_above_the_limit_is_refused_and_the_session_goes_on(self, serve: Serve) -> None:
        with serve(max_message_size_mb=0.01).wire() as wire:
            wire.reset()
            frame = json.dumps({"type": "step", "data": {"amount": 1, "metadata": {"x": "é" * 10_000}}})
            answer = wire.ask(frame)
            assert refusal(answer)[0] == "TOO_LARGE"
            assert answer["data"]["limit"] == 10485
            assert answer["data"]["size"] == len(frame.encode())
            assert wire.step(amount=1)["data"]["observation"]["total"] == 1

    def test_the_limit_counts_bytes_and_includes_itself(self, serve: Serve) -> None:
        limit = 2048
        with serve(max_message_size_mb=limit / 1024 / 1024).wire() as wire:
            frame = '{"type": "reset", "data": {"x": "' + "é" * 1000 + '"}}'
            frame += " " * (limit - len(frame.encode()))
            assert wire.ask(frame)["type"] == "observation"
            assert refusal(wire.ask(frame + " "))[0] == "TOO_LARGE"

    def test_forty_megabytes_are_refused_by_a_server_as_it_is_run(self) -> None:
        with ServerProcess("counter_server.py", "1") as server, Wire(f"ws://127.0.0.1:{server.port}/ws") as wire:
            wire.reset()
            wire.step(amount=1)
            frame = '{"type": "step", "data": {"amount": 1, "note": "' + "x" * 40_000_000 + '"}}'
            wire.send(frame)
            answer = wire.receive(timeout_s=60)
            assert refusal(answer)[0] == "TOO_LARGE"
            assert answer["data"]["size"] == len(frame)
            assert wire.step(amount=1)["data"]["observation"]["total"] == 2


class TestEndings:
    def test_at_capacity_the_first_frame_says_so(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.wire() as wire:
            wire.reset()
            with server.wire() as refused:
                assert refused.receive() == {
                    "type": "error",
                    "data": {
                        "message": "Server at capacity: 1/1 sessions active. Cannot accept new connections.",
                        "code": "CAPACITY_REACHED",
                        "active_sessions": 1,
                        "max_sessions": 1,
                    },
                }
                with pytest.raises(ConnectionClosedOK):
                    refused.receive()
            assert_still_usable(wire)

    def test_a_factory_that_fails_is_named_and_gives_the_place_back(self, serve: Serve) -> None:
        class BadEnvironment(CounterEnvironment):
            def __init__(self) -> None:
                raise RuntimeError("no licence at /secret/path")

        server = serve(BadEnvironment, max_concurrent_envs=1)
        for _ in range(3):
            with server.wire() as wire:
                assert wire.receive() == {
                    "type": "error",
                    "data": {
                        "message": "Environment factory 'BadEnvironment' failed to create instance.",
                        "code": "FACTORY_ERROR",
                        "factory_name": "BadEnvironment",
                    },
                }
                with pytest.raises(ConnectionClosedOK):
                    wire.receive()
        assert server.sessions.active_sessions == 0

    @pytest.mark.parametrize("made", [None, pytest.param(object(), id="object"), CounterEnvironment, {}], ids=repr)
    def test_a_factory_that_makes_no_environment_is_a_factory_error(self, serve: Serve, made: Any) -> None:
        def factory() -> Any:
            return made

        server = serve(factory, max_concurrent_envs=1)
        for _ in range(2):
            with server.wire() as wire:
                assert refusal(wire.receive())[0] == "FACTORY_ERROR"
        assert server.sessions.active_sessions == 0

    @pytest.mark.parametrize("cut", [Wire.close, Wire.cut, lambda wire: wire.send({"type": "close"})])
    def test_every_way_to_go_gives_the_place_back(self, serve: Serve, cut: Any) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)
        for _ in range(5):
            with server.wire() as wire:
                assert_still_usable(wire)
                cut(wire)
                server.wait_for_sessions(0)

    def test_a_client_that_goes_while_its_step_runs_gives_the_place_back(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=1)
        with server.wire() as wire:
            wire.reset()
            wire.send({"type": "step", "data": {"amount": 9}})
            gate.wait_until_entered()
            wire.cut()
            server.wait_for_sessions(0)

    def test_an_upgrade_that_is_never_finished_takes_no_place(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with socket.create_connection(("127.0.0.1", server.port)) as half:
            half.sendall(b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
            with server.wire() as wire:
                assert_still_usable(wire)

    def test_raw_bytes_that_are_no_websocket_harm_nobody(self, counter_server: RunningServer) -> None:
        with counter_server.wire() as wire:
            with socket.create_connection(("127.0.0.1", counter_server.port)) as raw:
                raw.sendall(
                    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
                )
                assert b"101" in raw.recv(4096)
                raw.sendall(b"\xff" * 64)  # reserved bits set, an unknown opcode, no mask
                raw.settimeout(60)
                while raw.recv(4096):
                    pass
            with socket.create_connection(("127.0.0.1", counter_server.port)) as raw:
                raw.sendall(b"\x16\x03\x01" + b"\x00" * 200)  # a TLS greeting on a plain port
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            assert_still_usable(wire)
        counter_server.wait_for_sessions(0)


class TestAttach:
    def test_an_unknown_id_is_refused(self, counter_server: RunningServer) -> None:
        with counter_server.wire("/ws?session_id=zzz") as wire:
            assert refusal(wire.receive()) == ("SESSION_ERROR", "Unknown session_id: zzz")
            with pytest.raises(ConnectionClosedOK):
                wire.receive()

    def test_a_socket_continues_a_session_opened_over_http_and_leaves_it_alive(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.http() as http:
            session = http.post("/reset").headers["X-OpenEnv-Session"]
            assert http.post("/step", json={"action": {"amount": 2}}).json()["observation"]["total"] == 2
            with server.wire(f"/ws?session_id={session}") as wire:
                assert wire.step(amount=3)["data"]["observation"]["total"] == 5
                with server.wire(f"/ws?session_id={session}") as second:
                    assert refusal(second.receive()) == (
                        "SESSION_ERROR",
                        f"Session {session} already has an attached WebSocket",
                    )
                assert wire.step(amount=1)["data"]["observation"]["total"] == 6
            assert http.post("/step", json={"action": {"amount": 1}}).json()["observation"]["total"] == 7


class TestCapacity:
    def test_64_clients_play_at_once_and_a_65th_is_refused_with_the_counts(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=64)

        def play(wire: Wire) -> list[int]:
            wire.reset()
            return [wire.step(amount=1)["data"]["observation"]["total"] for _ in range(10)]

        wires = [server.wire() for _ in range(64)]
        try:
            for wire in wires:
                assert wire.reset()["type"] == "observation"
            with server.wire() as refused:
                answer = refused.receive()
                assert refusal(answer)[0] == "CAPACITY_REACHED"
                assert (answer["data"]["active_sessions"], answer["data"]["max_sessions"]) == (64, 64)
            with ThreadPoolExecutor(64) as pool:
                assert list(pool.map(play, wires)) == [list(range(1, 11))] * 64
        finally:
            for number, wire in enumerate(wires):
                (wire.cut if number % 2 else wire.close)()
        server.wait_for_sessions(0)
        with server.wire() as wire:
            assert_still_usable(wire)
