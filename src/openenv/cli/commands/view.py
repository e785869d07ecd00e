"""``openenv view``: episodes on record, in a browser."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from openenv.core.env_server.serving import listen, run_app
from openenv.viewer.application import find_traces, viewer_app

Traces = Annotated[Path, typer.Argument(metavar="PATH", help="File of traces, or a folder with one.")]
Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes a free one.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")]

_HOST = "127.0.0.1"


def view(path: Traces, port: Port = 0, no_browser: NoBrowser = False) -> None:
    """Look at episodes on record in a browser, until Ctrl-C. Servers may write the file meanwhile."""
    app = viewer_app(find_traces(path))
    with listen(_HOST, port) as listener:
        address = f"http://{_HOST}:{listener.getsockname()[1]}/web/traces"
        Console(highlight=False).print(f"The episodes are at {address}. Ctrl-C ends it.", soft_wrap=True)
        if not no_browser:
            webbrowser.open(address)
        run_app(app, listener=listener)
