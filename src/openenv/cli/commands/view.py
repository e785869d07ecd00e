"""``openenv view``: a training run, and episodes on record, in a browser."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from openenv.core.env_server.serving import listen, run_app
from openenv.viewer.application import find_traces, viewer_app
from openenv.viewer.run_folder import is_run

Traces = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="Folder of a training run; file of traces, a folder with one, or postgresql://..."
    ),
]
Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes a free one.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")]

_HOST = "127.0.0.1"


def view(path: Traces, port: Port = 0, no_browser: NoBrowser = False) -> None:
    """Look at a training run or at episodes on record in a browser, until Ctrl-C. They may be written meanwhile."""
    run = Path(path) if is_run(Path(path)) else None
    has_traces = run is None or (run / "traces.db").is_file()
    app = viewer_app(find_traces(path) if has_traces else None, run)
    with listen(_HOST, port) as listener:
        address = f"http://{_HOST}:{listener.getsockname()[1]}/web/{'traces' if run is None else 'run'}"
        what = "The episodes are" if run is None else "The run is"
        Console(highlight=False).print(f"{what} at {address}. Ctrl-C ends it.", soft_wrap=True)
        if not no_browser:
            webbrowser.open(address)
        run_app(app, listener=listener)
