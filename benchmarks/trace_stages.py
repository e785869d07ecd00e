"""``python -m benchmarks.trace_stages``: what traces add to a step of 64 sessions, stage by stage, in this process.

Each stage is measured by the CPU time of its thread, in turns with the others, and the least of some repetitions is
taken: what disturbs a stage only ever adds to it. What the two threads cost each other on one core, as they take turns
with Python's lock and the caches, is in none of the stages; ``benchmarks.step_costs`` has it.
"""

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.measurements.server_cpu import SESSIONS
from benchmarks.programs.environment import EchoAction, EchoObservation
from openenv.core.env_server.metrics import Metrics
from openenv.core.env_server.traces.columns import encoded_entries
from openenv.core.env_server.traces.encoding import without_blobs
from openenv.core.env_server.traces.recording import SessionTrace, TraceRecorder
from openenv.core.env_server.traces.sqlite import FileDatabase
from openenv.core.env_server.traces.store import EncodedPart, add_run, write
from openenv.core.env_server.traces.writer import Hidden, Part, Retention, TraceWriter
from openenv.core.wire.answers import written_outcome
from openenv.core.wire.arrays import ArrayWriter
from openenv.core.wire.results import Outcome

# Steps of a session between two times that the thread is handed what was collected, at some 40,000 steps a second.
_STEPS = 150
_SECRETS = ("the value of a token", "the value of a password")
_REQUEST = b'{"message":"hello"}'

ResultT = TypeVar("ResultT")


class KeptParts(TraceWriter):
    """A writer that keeps the parts for the next stage."""

    parts: list[Part]

    def put(self, parts: list[Part], size: int) -> None:
        """Keep the parts."""
        self.parts = parts


class Stages:
    """Least seconds of CPU per step of each stage, by its name and its thread."""

    def __init__(self) -> None:
        self.costs: dict[tuple[str, str], float] = {}

    def measure(self, stage: str, where: str, work: Callable[[], ResultT]) -> ResultT:
        """Measure a stage of all sessions' steps once, and return its result."""
        began = time.thread_time()
        result = work()
        seconds = (time.thread_time() - began) / (SESSIONS * _STEPS)
        self.costs[stage, where] = min(self.costs.get((stage, where), math.inf), seconds)
        return result


def main(repetitions: Annotated[int, typer.Option(help="Repetitions of all stages.", min=1)] = 60) -> None:
    """Print what traces add to a step, in microseconds of CPU."""
    with TemporaryDirectory(prefix="openenv-trace-stages-") as folder:
        costs = asyncio.run(_measured(Path(folder) / "traces.db", repetitions))
    table = Table("stage", "where", "CPU per step, µs")
    for (stage, where), seconds in costs.items():
        table.add_row(stage, where, f"{seconds * 1e6:.2f}")
    Console().print(table)


async def _measured(file: Path, repetitions: int) -> dict[tuple[str, str], float]:
    """Return the seconds of each stage per step."""
    writer = KeptParts(file, Retention(math.inf, math.inf), Metrics(), Hidden())
    recorder = TraceRecorder(writer, "echo")
    sessions = [recorder.session(f"s{number}", "v1") for number in range(SESSIONS)]
    outcome = Outcome(EchoObservation(text="hello"), 0.5)
    arrays = ArrayWriter()
    for session in sessions:
        session.request("reset", {}, b"{}")
        session.answer(outcome, time.monotonic(), arrays)
    database = FileDatabase(file)
    database.prepare()
    stages = Stages()
    with database.connect() as connection:
        run = add_run(connection)
        for _ in range(repetitions):
            stages.measure("write the answer, without traces", "event loop", partial(_write, outcome, arrays))
            stages.measure("the same, and collect it", "event loop", partial(_collect, sessions, outcome, arrays))
            stages.measure("hand over", "event loop", recorder._hand_over)
            encoded = stages.measure("encode", "thread", partial(_encoded, writer))
            stages.measure("write to SQLite", "thread", partial(write, connection, run, encoded))
    return stages.costs


def _write(outcome: Outcome, arrays: ArrayWriter) -> None:
    for _ in range(SESSIONS * _STEPS):
        written_outcome(outcome, arrays)


def _collect(sessions: list[SessionTrace], outcome: Outcome, arrays: ArrayWriter) -> None:
    action = EchoAction(message="hello")
    for _ in range(_STEPS):
        for session in sessions:
            session.request("step", action, _REQUEST)
            session.answer(outcome, 1.0, arrays)


def _encoded(writer: KeptParts) -> list[EncodedPart]:
    encoded = []
    for part in writer.parts:
        content, blobs = without_blobs(encoded_entries(part.entries, part.offset, _SECRETS))
        encoded.append(EncodedPart(part.row, part.number, content, _STEPS, blobs))
    return encoded


if __name__ == "__main__":
    typer.run(main)
