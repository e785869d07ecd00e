"""``python -m benchmarks.trace_growth PLACE``: how long queries of traces take at a million episodes.

A file, or a PostgreSQL database, is filled with small episodes, a reset and four steps each, or one with fewer is gone
on with; then it is queried as a person would. Each query is timed twice, the first time with whatever the system has
cached; the last figure is the CPU time of the second.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Annotated, Any

import typer

from openenv import traces
from openenv.core.env_server.traces.store import (
    EncodedPart,
    EpisodeRow,
    add_run,
    database_at,
    end_run,
    write,
)
from openenv.traces import Entry, Filter, TraceFile

_BATCH = 1000
_ENVIRONMENTS = ("catch", "wordle", "sudoku", "browsergym")
_WORDS = ("left", "right", "stay", "river", "mountain", "letter", "window", "summer", "orange", "castle")
_STEPS = 4
_RARE = "xylophone"
# One episode in so many has the rare word.
_RARITY = 100_000


def main(
    place: Annotated[str, typer.Argument(help="File of traces, or postgresql://...")],
    episodes: Annotated[int, typer.Option(help="Episodes to have in it.")] = 1_000_000,
) -> None:
    """Fill the file or the database, and time the queries."""
    os.nice(10)
    fill(place, episodes)
    with traces.open(place) as opened:
        for name, query in _queries(opened).items():
            (first, _), (again, cpu) = _milliseconds(query), _milliseconds(query)
            typer.echo(f"{name:<44}{first:>10.1f} ms{again:>10.1f} ms{cpu:>10.1f} ms of CPU")


def fill(place: str, episodes: int) -> None:
    """Write episodes into a file or a database, as far as it has fewer."""
    database = database_at(place)
    database.prepare()
    with database.connect() as connection:
        run = add_run(connection)
        (there,) = connection.execute("SELECT count(*) FROM episode").fetchone()
        made = _parts(there)
        begun, used = time.perf_counter(), time.process_time()
        for written in range(there, episodes, _BATCH):
            write(connection, run, list(islice(made, min(_BATCH, episodes - written))))
        seconds, cpu = time.perf_counter() - begun, time.process_time() - used
        end_run(connection, run)
        typer.echo(f"{max(0, episodes - there):,} episodes written in {seconds:.0f} s, {cpu:.0f} s of CPU here")
        typer.echo(f"{connection.used_bytes() / 1e6:,.0f} MB")


def _parts(start: int) -> Iterator[EncodedPart]:
    """Make episodes without end, a second apart."""
    chance = random.Random(start)
    for number in count(start + 1):
        environment = chance.choice(_ENVIRONMENTS)
        words = chance.choices(_WORDS, k=_STEPS)
        row = EpisodeRow(
            number=number,
            session=f"{chance.getrandbits(40):010x}",
            transport="v1",
            environment=environment,
            version="1",
            started_at=1.7e9 + number,
            episode_id=f"e{number}",
            seed=str(number % 10_000),
            split="train",
            task_index=str(number % 500),
            steps=_STEPS,
            reward=round(chance.random(), 3),
            ending="done" if chance.random() < 0.95 else "closed",
            ended_at=1.7e9 + number + 1,
        )
        lines = [Entry("reset", row.started_at, 0.001, {"seed": number}, _answer("begin", done=False), False).line()]
        for turn, word in enumerate(words, 1):
            seen = _RARE if number % _RARITY == 0 else f"you see a {word}, and then a {words[-turn]}"
            answer = _answer(seen, done=turn == _STEPS)
            lines.append(Entry("step", row.started_at + turn, 0.001, {"move": word}, answer, False).line())
        yield EncodedPart(row, 1, "".join(lines).encode(), len(lines))


def _answer(text: str, *, done: bool) -> dict[str, Any]:
    return {"observation": {"text": text, "legal": list(_WORDS[:3])}, "reward": 0.25, "done": done}


def _queries(file: TraceFile) -> dict[str, Callable[[], Any]]:
    (newest,) = file.episodes(limit=1)
    middle = next(iter(file.episodes(Filter(until=1.7e9 + file.count() / 2), 1)))
    return {
        "list, newest 50": lambda: list(file.episodes(limit=50)),
        "list, the page in the middle": lambda: list(file.episodes(limit=50, after=middle.id)),
        "list --env": lambda: list(file.episodes(Filter(environment="wordle"), 50)),
        "list --env --min-reward 0.999": lambda: list(
            file.episodes(Filter(environment="wordle", min_reward=0.999), 50)
        ),
        "list --split --index --seed": lambda: list(file.episodes(Filter(split="train", index="7", seed="507"), 50)),
        "list --episode-id": lambda: list(file.episodes(Filter(episode_id="e12345"), 50)),
        "list --min-reward 2 (none)": lambda: list(file.episodes(Filter(min_reward=2.0), 50)),
        "list --ending closed": lambda: list(file.episodes(Filter(ending="closed"), 50)),
        "list --text, a common word": lambda: list(file.episodes(Filter(text="castle"), 50)),
        "list --text, in ten episodes": lambda: list(file.episodes(Filter(text=_RARE), 50)),
        "count": file.count,
        "groups by environment": lambda: file.groups("environment"),
        "groups by task": lambda: file.groups("environment", "split", "index", limit=50),
        "show": lambda: file.record(newest.id),
    }


def _milliseconds(query: Callable[[], Any]) -> tuple[float, float]:
    """Return the milliseconds of a query by the clock, and those of CPU."""
    begun, used = time.perf_counter(), time.process_time()
    query()
    return (time.perf_counter() - begun) * 1000, (time.process_time() - used) * 1000


if __name__ == "__main__":
    typer.run(main)
