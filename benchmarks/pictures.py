"""``python -m benchmarks.pictures``: how long a screenshot takes from the environment to the client.

One session on a server in a process of its own. The times are round trips of ``render``, and of a step whose
observation holds a screenshot of 1280x720 pixels that the environment has made before: the least, to which what other
programs do only adds, and the median.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.bench import OUR_PYTHON, PROGRAMS
from benchmarks.processes import ServerProcess
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient

FORMS = {
    "nothing": "a step without a picture",
    "picture": "a Picture in the observation",
    "file": 'a file, MediaType("image/png")',
    "pixels": "pixels, NDArray (nested lists without arrays)",
}

Client = SyncEnvClient[Any, Any, Any]


def main(
    seconds: Annotated[float, typer.Option(help="How long each form is measured.")] = 2.0,
    only: Annotated[list[str] | None, typer.Option(help="This form, or render; may be given again.")] = None,
) -> None:
    """Print the round trip of a screenshot in each form, for clients with and without arrays."""
    table = Table("form", "arrays=True, ms", "arrays=False, ms")
    with (
        ServerProcess(OUR_PYTHON, f"{PROGRAMS}.serve_pictures") as server,
        GenericEnvClient(base_url=server.url, arrays=True).sync() as with_arrays,
        GenericEnvClient(base_url=server.url).sync() as without,
    ):
        clients = (with_arrays, without)
        for client in clients:
            client.reset()
        for name in only or ["render", *FORMS]:
            times = [_round_trips_s(_call(client, name), seconds) for client in clients]
            shown = (f"{1000 * min(each):.2f} / {1000 * median(each):.2f}" for each in times)
            table.add_row(FORMS.get(name, name), *shown)
    Console().print(table)


def _call(client: Client, name: str) -> Callable[[], Any]:
    return client.render if name == "render" else lambda: client.step({"form": name})


def _round_trips_s(call: Callable[[], Any], seconds: float) -> list[float]:
    """Return the seconds that a call takes, each time."""
    call()
    times: list[float] = []
    until = time.monotonic() + seconds
    while not times or time.monotonic() < until:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    typer.run(main)
