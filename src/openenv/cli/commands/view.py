"""``openenv view``: training runs, evaluations and episodes on record, in a browser."""

import os
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from openenv.auto.target import Target, TargetKind
from openenv.cli.options import ListenHost
from openenv.cli.stop_on_eof import watch_stdin
from openenv.cli.targets import refusing
from openenv.cli.views.announcement import Announcement, make_token_for
from openenv.core.addresses import reachable, url_of
from openenv.core.env_server.access.policy import auth_requirement_of
from openenv.core.env_server.serving import listen, run_app
from openenv.core.env_server.settings import MEBIBYTE
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.traces.exporting import new_output
from openenv.viewer.application import comparison_app, save_page, source_app
from openenv.viewer.html_file.document import MAX_BYTES
from openenv.viewer.source import Source

PROGRAMS = "For programs that start this one"

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Folder of a training run, of openenv eval or of openenv collect; file of traces, a folder with one, or "
        "postgresql://... Two to four are compared.",
    ),
]
Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 for a free one.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write an HTML file, to send, instead of opening a browser."),
]
EpisodeIds = Annotated[
    list[str] | None,
    typer.Option(
        "--episode",
        metavar="ID",
        help="Episode to show alone, 4 at most: 1-17, or 2:1-17 of the second PATH; may be given again.",
    ),
]
MaxSizeMb = Annotated[float, typer.Option(min=0.1, help="MiB that the HTML file may take.")]
StopOnEof = Annotated[
    bool, typer.Option("--stop-on-eof", help="Stop when standard input is closed.", rich_help_panel=PROGRAMS)
]

# What the page of a program that started it yields its processors to.
_NICENESS = 10
_SHOWN = {"run": "The run is", "results": "The results are", "traces": "The episodes are"}


def view(
    paths: Paths,
    port: Port = 0,
    host: ListenHost = "127.0.0.1",
    no_browser: NoBrowser = False,
    output: Output = None,
    episode: EpisodeIds = None,
    max_size_mb: MaxSizeMb = MAX_BYTES / MEBIBYTE,
    stop_on_eof: StopOnEof = False,
) -> None:
    """Look at a run, an evaluation or episodes on record in a browser, or compare up to four, until Ctrl-C.

    They may be written meanwhile. With --output, an HTML file of them is written, which needs no server.
    """
    if output is not None:
        _write(output, paths, episode or [], round(max_size_mb * MEBIBYTE))
        return
    if episode:
        raise typer.BadParameter("Expected --output with --episode; without it, the page opens all of them.")
    if stop_on_eof:
        os.nice(_NICENESS)
        watch_stdin()
    with refusing():
        for path in paths:
            _check_path(path)
        sources = Source.all_at(paths)
        is_alone = len(sources) == 1
        made_token = make_token_for(host)  # before the application reads it
        app = source_app(sources[0]) if is_alone else comparison_app(sources)
    shown, what = (sources[0].view, _SHOWN[sources[0].view]) if is_alone else ("compare", "The comparison is")
    with listen(host, port) as listener:
        bound, bound_port = listener.getsockname()[:2]
        address = f"{url_of(reachable(bound), bound_port)}/web/{shown}"
        end = "" if stop_on_eof else " Ctrl-C ends it."
        Console(highlight=False).print(f"{what} at {address}.{end}", soft_wrap=True, markup=False)
        Announcement("", bound, bound_port, made_token=made_token).show_access(auth_requirement_of(app))
        if not no_browser:
            webbrowser.open(address)
        run_app(app, listener=listener)


def _write(output: Path, paths: list[str], episodes: list[str], max_bytes: int) -> None:
    """Write an HTML file, which appears when it is complete."""
    with new_output(output) as draft:
        draft.write_bytes(save_page(Source.all_at(paths), episodes, max_bytes))
    typer.echo(f"Wrote {output}.")


def _check_path(given: str) -> None:
    """Refuse what can be no recording: the name of an environment, the address of a server.

    Raises:
        EnvironmentNotFoundError: It is neither a file or folder that is there nor the address of a database.
    """
    target = Target.of(given)
    is_there = target.kind is not TargetKind.ADDRESS and Path(given).exists()
    if target.kind is TargetKind.RECORDING or (is_there and Path(given).suffix != ".py"):
        return
    is_lost = target.kind in (TargetKind.FOLDER, TargetKind.FILE) and not is_there
    found = "there is nothing at that path" if is_lost else f"that is {target.kind}"
    raise EnvironmentNotFoundError(
        f"`openenv view` takes the folder of a run, of an evaluation or of collected episodes, a file of traces or "
        f"postgresql://..., got {given}: {found}."
    )
