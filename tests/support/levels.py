"""The level of each test, set as a mark by what the test uses, and the CPU time that its level allows.

A level includes those before it. What a test uses is read from source, before anything is imported: its fixtures, the
names in its body, and what the fixtures and helpers behind these use in turn. A test is at least of the level of the
libraries that importing its file loads, so that choosing the first levels imports no library of training, nor one of
an environment::

    make test LEVEL=memory,files,socket

Where source can't show it, ``@pytest.mark.level("process")`` says it; so does a test that is dearer than its own level
allows. ``tests/support/level_marks.py`` holds tests to their levels.
"""

import ast
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.support.definitions import Definitions
from tests.support.import_graph import ROOT, ImportGraph, module_name, packages_of
from tests.support.pages import pages_of
from tests.support.snippets import blocks_of

LEVELS = ("memory", "files", "socket", "command", "process", "service", "browser", "training")

LIBRARIES: dict[str, str] = {
    **dict.fromkeys(("accelerate", "datasets", "lightning", "peft", "torch", "transformers", "trl"), "training"),
    **dict.fromkeys(("gymnasium", "inspect_ai", "openreward", "pettingzoo", "pyspiel", "ray"), "service"),
    **dict.fromkeys(("browsergym", "reasoning_gym", "skyrl_gym", "smolagents", "textarena"), "service"),
    "playwright": "browser",
}
"""The level of tests that use a library, or whose file loads it when it is imported."""

LIMITS_S: Mapping[str, float] = {
    "memory": 0.3,
    "files": 1,
    "socket": 2.5,
    "command": 5,
    "process": 15,
    "service": 60,
    "browser": 30,
    "training": 150,
}
"""Seconds of CPU time that a test of a level may take, its processes included, on a machine of 2024."""

NEEDS: Mapping[str, str] = {
    **dict.fromkeys(("git", "ip", "mmdebstrap", "sandbox", "unshare"), "process"),
    **dict.fromkeys(("docker", "docker-compose", "postgres", "reasoning-gym"), "service"),
    "browser": "browser",
}
"""The level of tests that need something of the machine, by its name in ``tests/support/needs.py``."""

USES: dict[str, str] = {
    **dict.fromkeys(("hypothesis.given", "sqlite3", "tempfile", "tmp_path", "tmp_path_factory"), "files"),
    **dict.fromkeys(
        ("asyncio.open_connection", "asyncio.start_server", "http.server", "socket", "socketserver"), "socket"
    ),
    **dict.fromkeys(("httpx.Client", "httpx.get", "httpx.post", "urllib.request", "uvicorn", "websockets"), "socket"),
    **dict.fromkeys(("openenv.core.client", "openenv.core.llm", "tests.support.servers"), "socket"),
    **dict.fromkeys(("openenv.auto.in_process", "openenv.validation.url_checks", "openenv.viewer.run_page"), "socket"),
    **dict.fromkeys(("openenv.cli.__main__", "typer.testing"), "command"),
    **dict.fromkeys(("multiprocessing", "os.fork", "subprocess", "tests.support.forked"), "process"),
    **dict.fromkeys(("openenv.adapters.openspiel.trial", "tests.support.environments.isolated"), "process"),
    **dict.fromkeys(("openenv.adapters.mcp_server", "openenv.auto.auto_env", "openenv.auto.making"), "process"),
    **dict.fromkeys(("openenv.core.env_server.isolation", "openenv.core.providers", "openenv.core.sandbox"), "process"),
    **dict.fromkeys(("openenv.core.env_server.workers", "openenv.doctor", "openenv.providers"), "process"),
    **dict.fromkeys(("mcp.client.stdio", "openenv.validation.run_checks", "tests.support.mcp_servers"), "process"),
    **dict.fromkeys(("docker", "kmock", "kubernetes"), "service"),
    **dict.fromkeys(("openenv.fleet.fleet", "tests.support.services"), "service"),
}
"""The level of tests that use a name, or what is within it; the longest name counts."""


def is_test_file(path: Path) -> bool:
    """Whether a file holds tests; its path is relative to the repository."""
    return path.parts[0] in ("tests", "envs") and path.name.startswith("test_")


def higher(levels: Iterable[str]) -> str:
    """Return the highest of some levels.

    Example:
        >>> higher(["files", "command", "memory"])
        'command'
    """
    return max(levels, key=LEVELS.index, default=LEVELS[0])


class LevelReader:
    """Reads the levels of tests from their source.

    Args:
        graph: The imports of the repository.
    """

    def __init__(self, graph: ImportGraph) -> None:
        self._graph = graph
        self._floors: dict[Path, str] = {}
        self._definitions: dict[str, Definitions] = {}
        self._used: dict[str, frozenset[str]] = {}

    def floor_of(self, file: Path) -> str:
        """Return the level of what importing a file loads; its path is relative to the repository."""
        if file not in self._floors:
            loaded = self._graph.loaded_with([module_name(file), *self._conftests(file)])
            self._floors[file] = higher(LIBRARIES[name] for name in loaded if name in LIBRARIES)
        return self._floors[file]

    def level_of(self, file: Path, test: str) -> str:
        """Return the level of a test, by the name of its function, with its class and a dot before it."""
        return higher([self.floor_of(file), *(_level_of_name(name) for name in self._reached(file, test))])

    def levels_of(self, file: Path) -> dict[str, str]:
        """Return the level of each test of a file."""
        return {test: self.level_of(file, test) for test in self._read(module_name(file)).tests()}

    def _reached(self, file: Path, test: str) -> set[str]:
        """Return every name that a test uses, itself and through the fixtures and helpers behind it."""
        module = module_name(file)
        known = [self._read(name) for name in (module, *self._conftests(file))]
        waiting = [f"{module}.{test}", *(f"{its.module}.{name}" for its in known for name in its.used_by_all_tests())]
        reached: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += self._used_by(name)
        return reached

    def _used_by(self, name: str) -> frozenset[str]:
        if name not in self._used:
            self._used[name] = frozenset(self._find_used_by(name))
        return self._used[name]

    def _find_used_by(self, name: str) -> Iterator[str]:
        """Yield the names that a definition in the tests uses; none for a definition elsewhere."""
        module = next((package for package in packages_of(name) if package in self._graph), None)
        if module is None or module.split(".")[0] == "openenv":
            return
        definitions = self._read(module)
        local_name = name.removeprefix(f"{module}.")
        if (imported := definitions.imported(local_name)) is not None:
            yield imported
            return
        used, fixtures = definitions.used_by(local_name)
        for full_name in used:
            home, _, attribute = full_name.rpartition(".")
            yield self._graph.full_name(home, attribute) if home in self._graph else full_name
        yield from (self._fixture(module, fixture) for fixture in fixtures)

    def _fixture(self, module: str, fixture: str) -> str:
        """Return where a fixture that a module requests is defined; its bare name if that is in a plugin."""
        modules = (module, *self._conftests(self._graph.module(module).path))
        return next((f"{home}.{fixture}" for home in modules if fixture in self._read(home)), fixture)

    def _conftests(self, file: Path) -> list[str]:
        names = (module_name(folder / "conftest.py") for folder in file.parents)
        return [name for name in names if name in self._graph]

    def _read(self, module: str) -> Definitions:
        if module not in self._definitions:
            known = self._graph.module(module)
            tree = ast.parse((self._graph.root / known.path).read_bytes())
            self._definitions[module] = Definitions(module, tree, known.names)
        return self._definitions[module]


@functools.cache
def _level_of_name(name: str) -> str:
    kind, _, rest = name.partition(" ")
    if kind == "needs" and rest:
        return NEEDS[rest]
    if kind == "level" and rest:
        return rest
    levels = LIBRARIES | USES
    return next((levels[prefix] for prefix in (name, *packages_of(name)) if prefix in levels), LEVELS[0])


Levels = dict[str, dict[str, str]]
"""The level of each test of each file, by the path of the file."""


def read_levels(root: Path = ROOT, files: Iterable[str] | None = None) -> Levels:
    """Return the level of every test of a repository; kept in ``.cache`` as long as no file changes.

    Args:
        root: The folder of the repository.
        files: The files that suffice, where the levels of all have to be read anew, which takes seconds.
    """
    graph = ImportGraph(root)
    cache = root / ".cache" / "levels.json"
    state = hashlib.sha256(graph.state().encode())
    state.update(b"".join(page.read_bytes() for page in pages_of(root)))
    if cache.exists():
        kept = json.loads(cache.read_text(encoding="utf-8"))
        if kept["state"] == state.hexdigest():
            levels: Levels = kept["levels"]
            return levels
    wanted = None if files is None else {Path(file) for file in files}
    reader = LevelReader(graph)
    tests = [path for path in graph.paths() if is_test_file(path) and (wanted is None or path in wanted)]
    levels = {str(path): reader.levels_of(path) for path in tests}
    levels |= {str(page.relative_to(root)): {"page": _level_of_page(page)} for page in pages_of(root)}
    if wanted is None:
        cache.parent.mkdir(exist_ok=True)
        draft = cache.with_name(f"levels-{os.getpid()}.json")
        draft.write_text(json.dumps({"state": state.hexdigest(), "levels": levels}), encoding="utf-8")
        draft.replace(cache)
    return levels


def _level_of_page(page: Path) -> str:
    """Return the level of a page's test: that of training where its code trains, or loads such a library."""
    code = "".join(block.text for block in blocks_of(page) if block.language != "bash" and not block.is_left_out)
    trains = (rf"^(import|from) {name}\b" for name, level in LIBRARIES.items() if level == "training")
    found = re.search("|".join([r"openenv (train|eval .*--model)\b", r"openenv\.train\b", *trains]), code, re.MULTILINE)
    return "training" if found else "process"
