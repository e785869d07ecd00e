"""``python -m benchmarks.profile_step``: where the microseconds of a step go on our server, stage by stage.

Each stage is measured alone, in this process, through the functions that the server calls; then the whole application
without a socket; then the server's process over sockets. All figures are CPU time per step of an environment that says
``BLOCKING = False``. The least of some repetitions is taken: what disturbs a stage only ever adds to it.
"""

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

import typer
import uvloop
from rich.console import Console
from rich.table import Table
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchmarks.bench import Bench
from benchmarks.effort import FULL
from benchmarks.measurements.server_cpu import SESSIONS, legacy_cpu_per_step, v1_cpu_per_step
from benchmarks.processes import ServerProcess
from benchmarks.programs.environment import EchoAction, EchoObservation, NonBlockingEchoEnvironment
from benchmarks.wire_client import STEP, STEP_DATA, UnexpectedAnswerError, check_answer
from benchmarks.wire_client_v1 import OBSERVED, TYPE, V1Session, column_message, joined, open_messages, split
from openenv.core.env_server import create_app
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import ServerConfig
from openenv.core.environment_types import environment_types
from openenv.core.wire.actions import ActionColumn, decode_action
from openenv.core.wire.answers import outcome_json
from openenv.core.wire.legacy import decode, encode
from openenv.core.wire.messages import Answer
from openenv.core.wire.names import V1
from openenv.core.wire.results import Outcome, outcome_of
from openenv.core.wire.v1 import decode_v1, frames_v1

_REPETITIONS = 5
_FRAMES = 100
_STEPS = _FRAMES * SESSIONS


class Costs(NamedTuple):
    """Seconds of CPU per step: 64 sockets with a session each, and 64 sessions on one socket, a frame for all."""

    legacy: float
    v1: float

    def __sub__(self, other: "Costs") -> "Costs":
        """Take other costs off."""
        return Costs(self.legacy - other.legacy, self.v1 - other.v1)


class Stage(NamedTuple):
    """One line of the table: what happens, in which functions, and what it costs."""

    title: str
    code: str
    costs: Costs


def main(
    rounds: Annotated[int, typer.Option(help="Rounds of each measurement over sockets; the median counts.")] = 5,
    steps: Annotated[int, typer.Option(help="Steps in a round.")] = FULL.cpu_steps,
) -> None:
    """Print where the microseconds of a step go on our server, stage by stage."""
    profile = uvloop.run(stages())
    application = uvloop.run(without_sockets())
    profile.append(Stage("carry it between these", "websocket, resumption", application - sum_of(profile)))
    floor, busy_floor, total = measured_over_sockets(application, rounds, steps)
    profile.append(Stage("socket, WebSocket and event loop: an echo", "uvicorn, uvloop, kernel", floor))
    profile.append(Stage("the same of a busy server: clients to wake", "kernel", busy_floor - application - floor))
    profile.append(Stage("the rest: code and data gone from the caches", "", total - sum_of(profile)))
    Console().print(table([*profile, Stage("total, of the server's process", "", total)]))


def measured_over_sockets(application: Costs, rounds: int, steps: int) -> tuple[Costs, Costs, Costs]:
    """Measure three servers' processes, one after another in each round.

    Args:
        application: What our server does between receiving and sending.
        rounds: How often.
        steps: Steps in a round, of all sessions together.

    Returns:
        What a step costs the bare echo server, one that first spins for as long as ours has to do, and ours.
    """
    spins = [f"--spin-us={seconds * 1e6}" for seconds in (application.legacy, application.v1 * SESSIONS)]
    with Bench(FULL, set()) as bench, ExitStack() as stack:
        legacy_spin, v1_spin = (stack.enter_context(bench.fresh_server("floor", spin)) for spin in spins)
        floor, ours = bench.server("floor"), bench.server("ours")
        servers = ((floor, floor), (legacy_spin, v1_spin), (ours, ours))
        found = [[_costs(*pair, steps) for pair in servers] for _ in range(rounds)]
    echo, spinning, whole = (_middle(costs) for costs in zip(*found, strict=True))
    return echo, spinning, whole


def _costs(legacy: ServerProcess, v1: ServerProcess, steps: int) -> Costs:
    return Costs(
        uvloop.run(legacy_cpu_per_step(legacy, SESSIONS, steps)),
        uvloop.run(v1_cpu_per_step(v1, SESSIONS, steps)),
    )


def _middle(costs: Sequence[Costs]) -> Costs:
    return Costs(median(cost.legacy for cost in costs), median(cost.v1 for cost in costs))


async def stages() -> list[Stage]:
    """Measure each stage between the transport and the environment, and back, through its own function."""
    factory = EnvironmentFactory(NonBlockingEchoEnvironment)
    session = await SessionManager(factory, environment_types(NonBlockingEchoEnvironment), ServerConfig()).open()
    await session.reset({})
    actions = [EchoAction(**STEP_DATA) for _ in range(_STEPS)]
    environment = NonBlockingEchoEnvironment()
    environment.reset()
    observations = [environment.step(action) for action in actions]
    outcomes = [outcome_of(observation) for observation in observations]
    validated = Costs(
        cpu_per_item(partial(decode_action, action_class=EchoAction), [STEP_DATA] * _STEPS),
        cpu_per_item(ActionColumn(EchoAction).read, [[STEP_DATA] * SESSIONS] * _FRAMES) / SESSIONS,
    )
    stepped = cpu_per_item(environment.step, actions)
    brought = cpu_per_item(outcome_of, observations)
    written = cpu_per_item(outcome_json, outcomes)
    handled = cpu_per_item(partial(session.handle, "step"), [STEP_DATA] * _STEPS)
    in_session = handled - validated.legacy - stepped - brought - written
    return [
        Stage("read the frame", "legacy.decode, decode_v1", _reading()),
        Stage("validate the action", "decode_action, ActionColumn.read", validated),
        Stage("find the turn, check the order", "Session.handle", _both(in_session)),
        Stage("the environment's step", "EchoEnvironment.step", _both(stepped)),
        Stage("bring its outcome into one form", "results.outcome_of", _both(brought)),
        Stage("write the observation", "answers.outcome_json", _both(written)),
        Stage("write the message and the frame", "legacy.encode, frames_v1", _framing(outcomes[0])),
    ]


def _both(seconds: float) -> Costs:
    return Costs(seconds, seconds)


def _reading() -> Costs:
    legacy = json.dumps(STEP, separators=(",", ":"))
    v1 = column_message([V1Session(json.dumps(str(uuid4())).encode()) for _ in range(SESSIONS)]).decode()
    frame = cpu_per_item(lambda text: list(decode_v1(text)), [v1] * _FRAMES)
    return Costs(cpu_per_item(decode, [legacy] * _STEPS), frame / SESSIONS)


def _framing(outcome: Outcome) -> Costs:
    data, name = outcome_json(outcome), str(uuid4())
    legacy = cpu_per_item(partial(encode, "observation"), [data] * _STEPS)
    answers = [Answer("observation", data, number, name) for number in range(SESSIONS)]
    frame = cpu_per_item(lambda ready: list(frames_v1(ready, columns=True)), [answers] * _FRAMES)
    return Costs(legacy, frame / SESSIONS)


def cpu_per_item(function: Callable[[Any], Any], items: Sequence[Any]) -> float:
    """Return the seconds of CPU that a call takes, in the best of some repetitions over all items."""
    best = math.inf
    for _ in range(_REPETITIONS):
        started = time.thread_time()
        for item in items:
            function(item)
        best = min(best, time.thread_time() - started)
    return best / len(items)


def sum_of(profile: Sequence[Stage]) -> Costs:
    """Add up what stages cost."""
    return Costs(sum(stage.costs.legacy for stage in profile), sum(stage.costs.v1 for stage in profile))


async def without_sockets() -> Costs:
    """Measure the whole application, handed its frames in this process."""
    app = create_app(NonBlockingEchoEnvironment, EchoAction, EchoObservation, max_concurrent_envs=SESSIONS + 1)
    legacy, v1 = InProcessSocket(app, None), InProcessSocket(app, V1)
    await legacy.ask(['{"type":"reset"}'], 1)
    opened = await v1.ask([joined(open_messages(1, SESSIONS)).decode()], SESSIONS)
    sessions = [V1Session.from_answer(answer) for frame in opened for answer in split(frame)]
    await v1.ask([joined([session.reset_message() for session in sessions]).decode()], SESSIONS)
    costs = Costs(await legacy.cpu_per_step(_legacy_frames), await v1.cpu_per_step(partial(_v1_frames, sessions)))
    await legacy.close()
    await v1.close()
    return costs


def _legacy_frames() -> list[str]:
    return [json.dumps(STEP, separators=(",", ":"))] * _STEPS


def _v1_frames(sessions: Sequence[V1Session]) -> list[str]:
    return [column_message(sessions).decode() for _ in range(_FRAMES)]


class InProcessSocket:
    """A WebSocket of an ASGI application without a server: frames are handed in, and messages come out.

    Args:
        app: The application.
        subprotocol: What the client offers.
    """

    def __init__(self, app: ASGIApp, subprotocol: str | None) -> None:
        self._events: deque[Message] = deque([{"type": "websocket.connect"}])
        self._more = asyncio.Event()
        self._frames: list[str] = []
        self._due = 0
        self._answered: asyncio.Future[None]
        offered = [] if subprotocol is None else [subprotocol]
        scope: Scope = {
            "type": "websocket",
            "scheme": "ws",
            "path": "/ws",
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"x-openenv-features", b"columns")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "subprotocols": offered,
        }
        self._task = asyncio.ensure_future(_run(app, scope, self._receive, self._send))

    async def ask(self, frames: Sequence[str], messages: int) -> list[str]:
        """Hand in frames, and return those that answer them once they hold so many messages."""
        self._frames, self._due = [], messages
        self._answered = asyncio.get_running_loop().create_future()
        self._events.extend({"type": "websocket.receive", "text": frame} for frame in frames)
        self._more.set()
        await asyncio.wait((self._answered, self._task), return_when=asyncio.FIRST_COMPLETED)
        if not self._answered.done():
            raise UnexpectedAnswerError(f"expected an answer, got the end of the socket: {self._task}")
        return self._frames

    async def cpu_per_step(self, make_frames: Callable[[], list[str]]) -> float:
        """Return the seconds of CPU that a step takes, in the best of some repetitions; each gets frames of its own."""
        best = math.inf
        for _ in range(_REPETITIONS):
            frames = make_frames()
            started = time.thread_time()
            answers = await self.ask(frames, _STEPS)
            best = min(best, time.thread_time() - started)
        for answer in split(answers[-1]):
            check_answer(answer)
        return best / _STEPS

    async def close(self) -> None:
        """Disconnect."""
        self._events.append({"type": "websocket.disconnect", "code": 1000})
        self._more.set()
        await self._task

    async def _receive(self) -> Message:
        while not self._events:
            self._more.clear()
            await self._more.wait()
        return self._events.popleft()

    async def _send(self, message: Message) -> None:
        if message["type"] != "websocket.send":
            return
        self._frames.append(message["text"])
        text = message["text"].encode()
        self._due -= text.count(OBSERVED) or text.count(TYPE)
        if self._due == 0:
            self._answered.set_result(None)


async def _run(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


def table(profile: Sequence[Stage]) -> Table:
    """Lay the stages out for a terminal; the last one is the total."""
    total = profile[-1].costs
    shown = Table(title="CPU of the server per step, 64 sessions", title_justify="left")
    shown.add_column("stage", no_wrap=True)
    shown.add_column("code", no_wrap=True)
    for column in ("legacy, µs", "share", "v1, µs", "share"):
        shown.add_column(column, justify="right", no_wrap=True)
    for stage in profile:
        figures = [
            text
            for seconds, whole in zip(stage.costs, total, strict=True)
            for text in (f"{seconds * 1e6:.2f}", f"{seconds / whole:.0%}")
        ]
        shown.add_row(stage.title, stage.code, *figures, end_section=stage is profile[-2])
    return shown


if __name__ == "__main__":
    typer.run(main)
