"""Count the functions of this package that one step goes through, on each wire, and on v1 with a journal.

    python -m benchmarks.step_path

An environment with ``BLOCKING = False`` is stepped through the whole application, which is handed its frames in this
process; functions of other packages, comprehensions and generator expressions are left out, and each function counts
once. Beside all functions, those are counted that another module calls: the stations at which a reader who follows the
step opens a further file, or returns to it. The journal is a file of SQLite's; functions that another thread calls to
write it are left out as well.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.profile_step import InProcessSocket
from benchmarks.programs.environment import EchoAction, EchoObservation, NonBlockingEchoEnvironment
from benchmarks.wire_client import STEP
from benchmarks.wire_client_v1 import V1Session, joined, open_messages, split
from openenv.core.env_server.app import create_app
from openenv.core.wire.names import V1

_SOURCE = "/openenv/core/"
_WARM_UP_STEPS = 3


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
    socket = InProcessSocket(app, V1 if wire == "v1" else None)
    frames = await (_v1_frames(socket) if wire == "v1" else _legacy_frames(socket))
    called: dict[str, bool] = {}

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_code.co_qualname
        if event == "call" and _SOURCE in frame.f_code.co_filename and not name.endswith(">"):
            called.setdefault(name, _caller(frame) != frame.f_code.co_filename)

    for frame in frames[:-1]:
        await socket.ask([frame], 1)
    sys.setprofile(note)
    try:
        await socket.ask(frames[-1:], 1)
    finally:
        sys.setprofile(None)
    await socket.close()
    return called


def _caller(frame: FrameType) -> str | None:
    """Return the file of the function that called; comprehensions are part of it."""
    caller = frame.f_back
    return None if caller is None else caller.f_code.co_filename


async def _v1_frames(socket: InProcessSocket) -> list[str]:
    opened = await socket.ask([joined(open_messages(1, 1)).decode()], 1)
    session = V1Session.from_answer(next(iter(split(opened[0]))))
    await socket.ask([session.reset_message().decode()], 1)
    return [session.step_message().decode() for _ in range(_WARM_UP_STEPS + 1)]


async def _legacy_frames(socket: InProcessSocket) -> list[str]:
    await socket.ask(['{"type":"reset"}'], 1)
    return [json.dumps(STEP, separators=(",", ":"))] * (_WARM_UP_STEPS + 1)


def main() -> None:
    """Print the functions of both wires, and those of v1 with a journal."""
    with tempfile.TemporaryDirectory() as folder:
        for wire, journal in (("legacy", None), ("v1", None), ("v1", Path(folder) / "journal.db")):
            names = asyncio.run(functions_of_a_step(wire, journal))
            stations = sum(names.values())
            kind = wire if journal is None else f"{wire} with a journal"
            print(f"{kind}: {len(names)} functions, {stations} of them called by another module (marked by *)")
            print("  " + " > ".join(f"{name}*" if called else name for name, called in names.items()))


if __name__ == "__main__":
    main()
