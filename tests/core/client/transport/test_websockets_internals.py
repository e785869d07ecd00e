"""The methods of websockets that the client's connection overrides are those that it was written for."""

import ast
import hashlib
import inspect
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from websockets.asyncio.client import ClientConnection, connect

from openenv.core.client.transport.connection import Connection, _Connect

# A digest of each method's source, as the classes above were written for.
KNOWN: dict[str, str] = {
    "ClientConnection.__init__": "3eaf0ed34951",
    "ClientConnection.connection_lost": "ed34a9b75ab3",
    "ClientConnection.data_received": "19c5a13dd8eb",
    "ClientConnection.process_event": "047114e631b5",
    "connect.process_redirect": "b50127e1c98f",
}


def overridden() -> Iterator[tuple[str, str]]:
    """The methods of the library's classes that ours override: a name, and the source of the library's method."""
    for ours, theirs in ((Connection, ClientConnection), (_Connect, connect)):
        for name in sorted(vars(ours)):
            definer = next((cls for cls in theirs.__mro__ if inspect.isfunction(vars(cls).get(name))), object)
            if definer is not object:
                yield f"{theirs.__name__}.{name}", source_of(definer, name)


def source_of(definer: type, name: str) -> str:
    """A method's source in the file of its class: other libraries put methods of their own in its place."""
    lines, _ = inspect.getsourcelines(definer)
    tree = ast.parse("".join(lines))
    assert isinstance(tree.body[0], ast.ClassDef)
    method = next(node for node in tree.body[0].body if getattr(node, "name", None) == name)
    assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    return "".join(lines[method.lineno - 1 : method.end_lineno])


def digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


@pytest.mark.parametrize(("name", "source"), list(overridden()), ids=lambda value: value if value in KNOWN else "")
def test_a_method_that_is_overridden_has_not_changed(name: str, source: str) -> None:
    found = digest(source)
    assert KNOWN.get(name) == found, (
        f"websockets {version('websockets')} has another {name} than the client's connection was written for. Read "
        f"both, adapt ours, put the digest {found!r} here, and raise the upper bound of websockets in pyproject.toml."
    )


def test_every_method_that_was_overridden_is_still_there() -> None:
    assert {name for name, _ in overridden()} == KNOWN.keys()


def test_no_version_is_allowed_that_these_tests_have_not_seen() -> None:
    root = next(parent for parent in Path(__file__).parents if (parent / "pyproject.toml").exists())
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    (requirement,) = [found for text in project["dependencies"] if (found := Requirement(text)).name == "websockets"]
    major = int(version("websockets").split(".")[0])
    assert version("websockets") in requirement.specifier
    assert f"{major + 1}.0" not in requirement.specifier
