"""Look at every environment as from a fresh interpreter, in a process forked for each: what all need is loaded once.

``python forked.py LOOK TARGET...`` prints a line of JSON for each target: its name, what was seen, and how that failed.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

Look = Callable[[str], Any]


def client_side() -> Look:
    """Which modules are loaded by importing a package: all that clients need of ours is loaded before."""
    for module in ("openenv.core.typed_client", "openenv.core.generic_client", "openenv.core.mcp_client"):
        import_module(module)

    def look(module: str) -> list[str]:
        import_module(module)
        return sorted(sys.modules)

    return look


def checkout() -> Look:
    """Which of a package's names are missing, and the metrics of its server, imported as from a checkout."""
    import_module("openenv.core.env_server.app")
    from starlette.testclient import TestClient

    def look(module: str) -> tuple[list[str], str]:
        package = import_module(module)
        missing = [name for name in package.__all__ if not hasattr(package, name)]
        app = import_module(f"{module}.server.app").app
        server = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1))
        return missing, server.get("/metrics").text

    return look


def wheel() -> Look:
    """Build the wheel of a folder, in ``built`` two levels above it; setuptools keeps what it learns of a folder."""
    build_meta = import_module("setuptools.build_meta")

    def look(folder: str) -> str:
        os.chdir(folder)
        # What it prints of its doings is for nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return str(build_meta.build_wheel("../../built"))

    return look


LOOKS = {"client_side": client_side, "checkout": checkout, "wheel": wheel}


def main(name: str, *targets: str) -> None:
    """Look at every target, one after another."""
    look = LOOKS[name]()
    for target in targets:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _answer(look, target, writer)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as answer:
            seen, fault = json.loads(answer.read() or '[null, "it ended without a word"]')
        os.waitpid(child, 0)
        sys.stdout.write(f"{json.dumps([target, seen, fault])}\n")
        sys.stdout.flush()


def _answer(look: Look, target: str, writer: int) -> None:
    try:
        answer = [look(target), None]
    except Exception as error:  # noqa: BLE001  # whatever it is, the test of this target tells it
        answer = [None, repr(error)]
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        json.dump(answer, pipe)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
