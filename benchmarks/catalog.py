"""``python -m benchmarks.catalog``: what each environment of the catalog costs, measured through the wire.

Every environment is served in a process of its own and played by its scripted player over one v1 socket. Only the time
from sending the actions to the last answer counts, so a slow player costs nothing.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import psutil
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import BUSY_LOAD, RESULTS
from benchmarks.public_package import ROOT
from openenv.adapters.text import ActionText
from openenv.auto.catalog import published
from openenv.auto.discovery import find_environment
from openenv.auto.package import EnvironmentPackage
from openenv.core.client_types import StepResult
from openenv.core.exceptions import EnvironmentNotFoundError, OpenEnvError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.core.sync_client import SyncEnvClient
from openenv.core.vector_client import SyncVectorEnv
from openenv.train.agents.players import RandomPlayer

SESSIONS = 64
HEAVY = {"browsergym": 4, "coding": 16, "code_feedback": 16, "terminal": 16}
"""Sessions of the environments of which each has a process or a browser page of its own."""

RESTING = 256
"""Sessions whose memory is counted, of other environments: what a few of them need may fit into what is there."""

FIRST_SESSIONS = 2
"""Sessions whose memory is not counted: it holds what the first ones load."""

PAGES = (ROOT / "README.md", ROOT / "docs" / "catalog.md")
BEGIN, END = "<!-- costs: begin -->", "<!-- costs: end -->"

Client = SyncEnvClient[Any, Any, Any]
Vector = SyncVectorEnv[Any, Any, Any]


@dataclass(frozen=True)
class Cost:
    """What an environment costs.

    Attributes:
        name: The environment's name.
        sessions: Sessions that play at once.
        steps_per_s: Steps of all of them together in a second.
        step_s: Seconds of one step of one session that plays alone, the median.
        reset_s: Seconds of a reset of it, the median.
        bytes_per_session: Memory that a further session takes, in all processes of the server.
    """

    name: str
    sessions: int
    steps_per_s: float
    step_s: float
    reset_s: float
    bytes_per_session: float


def measure(package: EnvironmentPackage, sessions: int, seconds: float) -> Cost:
    """Measure what an environment costs, on a server of its own.

    Args:
        package: The environment.
        sessions: How many sessions play at once.
        seconds: For how long at most, in each of the two ways of playing.
    """
    resting = sessions if package.name in HEAVY else RESTING
    with LocalProcessProvider(package.folder, max_sessions=max(sessions, resting) + FIRST_SESSIONS) as provider:
        provider.wait_for_ready(120)
        assert provider.pid is not None
        server = psutil.Process(provider.pid)
        with GenericEnvClient(base_url=provider.base_url).sync() as client:
            reset_s, step_s = _play_alone(package, client, seconds)
            bytes_per_session = _memory_per_session(client, server, resting)
            with client.vector(sessions) as vector:
                steps_per_s = _play_together(package, vector, seconds)
    return Cost(package.name, sessions, steps_per_s, step_s, reset_s, bytes_per_session)


def _memory_per_session(client: Client, server: psutil.Process, resting: int) -> float:
    """Memory that sessions need which were reset and then left alone."""
    with client.vector(FIRST_SESSIONS) as first:
        _check_all(first.reset(seeds=range(FIRST_SESSIONS)))
        before = _memory(server)
        with client.vector(resting) as others:
            _check_all(others.reset(seeds=range(resting)))
            return max(_memory(server) - before, 0) / resting


def _play_alone(package: EnvironmentPackage, client: Client, seconds: float) -> tuple[float, float]:
    """The median time of a reset and of a step, without the first reset: it loads what all sessions share."""
    client.reset(seed=0)
    resets: list[float] = []
    steps: list[float] = []
    until = time.monotonic() + seconds
    while not steps or time.monotonic() < until:
        began = time.perf_counter()
        result = client.reset(seed=len(resets))
        resets.append(time.perf_counter() - began)
        player = Player(package, len(resets))
        while not result.done and (not steps or time.monotonic() < until):
            action = player.next(result)
            began = time.perf_counter()
            result = client.step(action)
            steps.append(time.perf_counter() - began)
    client.disconnect()
    return median(resets), median(steps)


def _play_together(package: EnvironmentPackage, vector: Vector, seconds: float) -> float:
    """Steps in a second of all slots together; episodes that end are followed by others."""
    seeds = iter(range(10**9))
    players = [Player(package, next(seeds)) for _ in range(len(vector))]
    results = _check_all(vector.reset(seeds=range(len(vector))))
    steps, spent = 0, 0.0
    until = time.monotonic() + 3 * seconds  # players and resets take time too
    while spent < seconds and (not steps or time.monotonic() < until):
        actions = [player.next(result) for player, result in zip(players, results, strict=True)]
        began = time.perf_counter()
        answered = vector.step(actions)
        spent += time.perf_counter() - began
        steps += len(actions)
        results = _check_all(answered)
        ended = [slot for slot, result in enumerate(results) if result.done]
        if ended:
            again = vector.reset(seeds=[next(seeds) for _ in ended], slots=ended)
            for slot in ended:
                results[slot], players[slot] = _checked(again[slot]), Player(package, next(seeds))
    return steps / spent


class Player:
    """A player of one episode, of results as they come over the wire: the package's own, or else a random one.

    Args:
        package: The environment.
        seed: Of its choices.
    """

    def __init__(self, package: EnvironmentPackage, seed: int) -> None:
        self._observation_class = package.observation_class()
        self._choose: Callable[[Any], Any] = package.make_player(seed) or RandomPlayer(
            ActionText(package.action_class()), seed
        )

    def next(self, result: StepResult[dict[str, Any]]) -> Any:
        """Choose the next action."""
        fields = {**result.observation, "reward": result.reward, "done": result.done}
        return self._choose(self._observation_class.model_validate(fields))


def _check_all(results: Sequence[Any]) -> list[StepResult[dict[str, Any]]]:
    return [_checked(result) for result in results]


def _checked(result: Any) -> StepResult[dict[str, Any]]:
    if isinstance(result, OpenEnvError):
        raise result
    assert isinstance(result, StepResult)
    return result


def _memory(server: psutil.Process) -> int:
    """The memory that would be free if the server and what it started ended."""
    processes = [server, *server.children(recursive=True)]
    return sum(int(process.memory_full_info().uss) for process in processes)


def markdown(costs: Sequence[Cost], descriptions: dict[str, str]) -> str:
    """Write the table as Markdown.

    Args:
        costs: The rows.
        descriptions: One sentence on each environment, by name.
    """
    head = "| Environment | What it is | Sessions | Steps/s | One step | Reset | Memory per session |"
    rows = [
        f"| `{cost.name}` | {descriptions[cost.name]} | {cost.sessions} | {cost.steps_per_s:,.0f} | "
        f"{_duration(cost.step_s)} | {_duration(cost.reset_s)} | {_size(cost.bytes_per_session)} |"
        for cost in costs
    ]
    return "\n".join([head, "|---|---|---:|---:|---:|---:|---:|", *rows])


def write_into(page: Path, table: str) -> None:
    """Put the table between the marks of a page.

    Raises:
        ValueError: The page lacks the marks.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for the table; mark one with {BEGIN} and {END}.")
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _size(size: float) -> str:
    if size < 1024:
        return "below 1 KiB"
    return f"{size / 1024:.0f} KiB" if size < 2**20 else f"{size / 2**20:.1f} MiB"


def _find(name: str) -> EnvironmentPackage:
    try:
        return find_environment(name)
    except EnvironmentNotFoundError as error:
        raise typer.BadParameter(str(error)) from error


def main(
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="This environment; may be repeated.")] = None,
    seconds: Annotated[float, typer.Option(help="How long each is played.")] = 3.0,
    write: Annotated[bool, typer.Option("--write", help="Put the table into README.md and docs/catalog.md.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for the figures as JSON.")] = RESULTS,
) -> None:
    """Measure what the environments of the catalog cost, and print a table."""
    if only and write:
        raise typer.BadParameter("--write replaces the whole table; leave --only out.")
    console = Console(width=max(Console().width, 120))
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        console.print(f"[yellow]This machine is busy (load {load:.1f}): everything will look slower than it is.")
    packages = [_find(name) for name in only or [entry.name for entry in published()]]
    costs = []
    for package in packages:
        console.print(f"[dim]{package.name}")
        costs.append(measure(package, HEAVY.get(package.name, SESSIONS), seconds))
    console.print(_table(costs))
    output.mkdir(parents=True, exist_ok=True)
    figures = {"python": platform.python_version(), "load": load, "costs": [vars(cost) for cost in costs]}
    (output / "catalog.json").write_text(json.dumps(figures, indent=2), encoding="utf-8")
    if write:
        table = markdown(costs, {package.name: package.description for package in packages})
        for page in PAGES:
            write_into(page, table)


def _table(costs: Sequence[Cost]) -> Table:
    table = Table("environment", "sessions", "steps/s", "one step", "reset", "memory per session")
    for cost in costs:
        table.add_row(
            cost.name,
            str(cost.sessions),
            f"{cost.steps_per_s:,.0f}",
            _duration(cost.step_s),
            _duration(cost.reset_s),
            _size(cost.bytes_per_session),
        )
    return table


if __name__ == "__main__":
    typer.run(main)
