"""Files of traces with episodes that were never played, and files that earlier versions have written."""

import sqlite3
from contextlib import closing
from pathlib import Path

from openenv.traces import Entry, Episode, TraceFile
from openenv.traces import open as open_traces

BEGAN = 1_760_000_000.0


def episode(number: int, steps: int, environment: str = "walk", ending: str = "done") -> Episode:
    """Make an episode, each beginning a second after the one before."""
    began = BEGAN + number
    return Episode(
        id="",
        environment=environment,
        version="1",
        session=f"s{number}",
        transport="v1",
        started_at=began,
        ended_at=began + 0.5,
        episode_id=f"e{number}",
        seed=str(number),
        split=None,
        index=None,
        steps=steps,
        reward=float(steps),
        ending=ending,
        error=None,
        parent=None,
    )


def entries(steps: int, text: str = "At {step}.\nGo on.", turn_at: int | None = None) -> list[Entry]:
    """Make the entries of an episode; from step ``turn_at`` on, it goes another way."""
    made = [Entry("reset", BEGAN, 0.001, {"seed": 1}, _answer(text.format(step=0), None, done=False), False)]
    for step in range(1, steps + 1):
        way = "left" if turn_at is not None and step >= turn_at else "right"
        answer = _answer(text.format(step=step), 1.0, done=step == steps)
        made.append(Entry("step", BEGAN + step / 1000, 0.0005, {"move": way}, answer, False))
    return made


def _answer(text: str, reward: float | None, *, done: bool) -> dict[str, object]:
    metadata = {"reward_signals": {"pace": 0.5}, "reward_weights": {"pace": 1.0}}
    return {"observation": {"text": text}, "reward": reward, "done": done, "metadata": metadata}


def new_file(path: str | Path) -> TraceFile:
    """Make a file of traces without episodes, and open it."""
    return open_traces(path, create=True)


def file_of_dump(dump: Path, path: Path) -> Path:
    """Make the file of SQLite that a dump is of; return its path."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(dump.read_text())
    return path
