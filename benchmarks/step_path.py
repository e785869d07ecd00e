"""Count the functions of this package that one step goes through, on each wire, on v1 with a journal, and in a client.

    python -m benchmarks.step_path

An environment with ``BLOCKING = False`` is stepped through the whole application, which is handed its frames in this
process; functions of other packages, comprehensions and generator expressions are left out, and each function counts
once. Beside all functions, those are counted that another module calls: the stations at which a reader who follows the
step opens a further file, or returns to it. The journal is a file of SQLite's; functions that another thread calls to
write it are left out as well. The client is asynchronous, and steps a server in a process of its own on v1.

Several steps are counted, without the garbage collector, and the shortest way is the result: the journal checks itself
every second and deletes in a thread what is old, and a step that meets either goes a longer way.
"""

import asyncio
import gc
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.bench import OUR_PYTHON, PROGRAMS
from benchmarks.processes import ServerProcess
from benchmarks.profile_step import InProcessSocket
from benchmarks.programs.environment import EchoAction, EchoObservation, NonBlockingEchoEnvironment
from benchmarks.wire_client import STEP, STEP_DATA
from benchmarks.wire_client_v1 import V1Session, joined, open_messages, split
from openenv.core.env_server.app import create_app
from openenv.core.generic_client import GenericEnvClient
from openenv.core.wire.names import V1

_SOURCE = "/openenv/core/"
_WARM_UP_STEPS = 3
_COUNTED_STEPS = 5


def functions() -> dict[str, dict[str, bool]]:
    """Name the functions of a step of each kind, and of a client's call.

    Returns:
        By the kind, and then by a function's qualified name, whether the caller is in another module.
    """
    ours = ServerProcess(OUR_PYTHON, f"{PROGRAMS}.serve_ours", ("--environment", "non-blocking"))
    with tempfile.TemporaryDirectory() as folder, ours as server:
        return {
            "legacy": asyncio.run(functions_of_a_step("legacy")),
            "v1": asyncio.run(functions_of_a_step("v1")),
            "v1 with a journal": asyncio.run(functions_of_a_step("v1", Path(folder) / "journal.db")),
            "a client's call": asyncio.run(functions_of_a_call(server.url)),
        }


async def functions_of_a_step(wire: str, journal: Path | None = None) -> dict[str, bool]:
    """Name the functions that one step goes through, in the order in which they are called first.

    Args:
        wire: ``v1`` or ``legacy``.
        journal: File of the journal; ``None`` for none.

    Returns:
        By a function's qualified name, whether the caller is in another module.
    """
    path = None if journal is None else str(journal)
    app = create_app(NonBlockingEchoEnvironment, EchoAction, EchoObservation, max_concurrent_envs=2, journal=path)
    async with app.router.lifespan_context(app):  # which ends the threads of the journal, too
        socket = InProcessSocket(app, V1 if wire == "v1" else None)
        frames = await (_v1_frames(socket) if wire == "v1" else _legacy_frames(socket))
        way = await shortest_way([partial(socket.ask, [frame], 1) for frame in frames])
        await socket.close()
    return way


async def functions_of_a_call(url: str) -> dict[str, bool]:
    """Name the functions that one call of a client's ``step`` goes through, as ``functions_of_a_step`` does."""
    async with GenericEnvClient(base_url=url) as client:
        await client.reset()
        return await shortest_way([partial(client.step, STEP_DATA)] * (_WARM_UP_STEPS + _COUNTED_STEPS))


async def shortest_way(steps: list[Callable[[], Awaitable[Any]]]) -> dict[str, bool]:
    """Take the steps, and name the functions of the one that goes through fewest; the first ones only warm up."""
    for step in steps[:_WARM_UP_STEPS]:
        await step()
    return min([await _way(step) for step in steps[_WARM_UP_STEPS:]], key=len)


async def _way(step: Callable[[], Awaitable[Any]]) -> dict[str, bool]:
    called: dict[str, bool] = {}
    collects, profiles = gc.isenabled(), sys.getprofile()
    gc.disable()  # what it finds may be ours, of work that has nothing to do with the step
    sys.setprofile(partial(_note, called))
    try:
        await step()
    finally:
        sys.setprofile(profiles)
        if collects:
            gc.enable()
    return called


def _note(called: dict[str, bool], frame: FrameType, event: str, _argument: Any) -> None:
    name = frame.f_code.co_qualname
    if event == "call" and _SOURCE in frame.f_code.co_filename and not name.endswith(">"):
        called.setdefault(name, _caller(frame) != frame.f_code.co_filename)


def _caller(frame: FrameType) -> str | None:
    """Return the file of the function that called; comprehensions are part of it."""
    caller = frame.f_back
    return None if caller is None else caller.f_code.co_filename


async def _v1_frames(socket: InProcessSocket) -> list[str]:
    opened = await socket.ask([joined(open_messages(1, 1)).decode()], 1)
    session = V1Session.from_answer(next(iter(split(opened[0]))))
    await socket.ask([session.reset_message().decode()], 1)
    return [session.step_message().decode() for _ in range(_WARM_UP_STEPS + _COUNTED_STEPS)]


async def _legacy_frames(socket: InProcessSocket) -> list[str]:
    await socket.ask(['{"type":"reset"}'], 1)
    return [json.dumps(STEP, separators=(",", ":"))] * (_WARM_UP_STEPS + _COUNTED_STEPS)


def main() -> None:
    """Print the functions of each kind of step, and of a client's call."""
    for kind, names in functions().items():
        print(f"{kind}: {len(names)} functions, {sum(names.values())} of them called by another module (marked by *)")
        print("  " + " > ".join(f"{name}*" if called else name for name, called in names.items()))


if __name__ == "__main__":
    main()
