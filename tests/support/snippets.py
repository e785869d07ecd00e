"""The code in Markdown pages, taken out of them word for word, and a folder to run it in.

A page's fenced blocks mean:

- ``python``, ``yaml`` or ``toml`` whose first line is a comment with a file's path: a file with this content;
- any other ``python``: run in the page's order, each block seeing the names of those before it;
- ``console``: commands after ``$ ``, each followed by the output that it must print;
- ``bash``: commands for a person to choose from; not run here.

A comment ``<!-- keeps running -->`` before a console block starts its command in the background, for the rest of the
page. After ``<!-- fails -->`` its commands must fail, and what they print to standard error is compared, too.
``<!-- not run: reason -->`` leaves the block after it out. Three dots in an output stand for any text.
"""

import ast
import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.forked import run_forked
from tests.support.imported_modules import forget_modules_of

from openenv.core.providers.health import wait_until_healthy

_BLOCK = re.compile(
    r"(?:^<!--[ ](?P<note>[^\n]*?)[ ]-->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_PATH = re.compile(r"# (?P<path>[\w/.-]+\.\w+)\n")
# Against hanging: a training on a busy machine takes minutes.
_TIMEOUT_S = 600
_COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page.

    Attributes:
        language: What follows the fence.
        text: The lines between the fences.
        note: What a comment right before it says.
        line: Line of the page on which the text starts, for messages.
    """

    language: str
    text: str
    note: str
    line: int

    @property
    def path(self) -> str | None:
        """The file that the block is, if it is one."""
        named = _PATH.match(self.text)
        return named["path"] if named else None

    @property
    def is_left_out(self) -> bool:
        """Whether the page says that it is not to be run."""
        return self.note.startswith("not run: ")


def blocks_of(page: Path) -> list[Block]:
    """Return a page's fenced blocks, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], found["text"], found["note"] or "", text.count("\n", 0, found.start("text")) + 1)
        for found in _BLOCK.finditer(text)
    ]


@dataclass
class Walkthrough:
    """A folder in which a page is followed.

    Attributes:
        folder: Where files are written and commands run.
        port: Takes the place of the page's port 8000; programs find it in the variable ``PORT`` too.
        variables: Further environment variables of the programs.
    """

    folder: Path
    port: int
    variables: dict[str, str] = field(default_factory=dict)
    _names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @contextmanager
    def following(self) -> Iterator["Walkthrough"]:
        """Kill what the page left running, however it ends, and forget the modules that it has imported."""
        try:
            yield self
        finally:
            for process in self._running:
                process.kill()
                process.wait()
            forget_modules_of(self.folder)

    def follow(self, block: Block, page: Path) -> None:
        """Do what a block says."""
        if block.is_left_out:
            return
        text = block.text.replace("localhost:8000", f"127.0.0.1:{self.port}").replace("port=8000", f"port={self.port}")
        if block.path is not None:
            file = self.folder / block.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        elif block.language == "python":
            self._execute("\n" * (block.line - 1) + text, page)
        elif block.language == "console":
            for found in _COMMAND.finditer(text):
                try:
                    self._run(found["command"], found["output"], block.note)
                except Exception as error:
                    line = block.line + text.count("\n", 0, found.start())
                    error.add_note(f"{page}:{line}: $ {found['command']}")
                    raise

    def _execute(self, text: str, page: Path) -> None:
        code = compile(text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, self._names)
        if result is not None:
            asyncio.run(result)

    def _run(self, command: str, output: str, note: str) -> None:
        words = shlex.split(command)
        program = str(Path(sys.executable).with_name(words[0]))
        environment = {**os.environ, "PORT": str(self.port), "PYTHONUNBUFFERED": "1", **self.variables}
        if note == "keeps running":
            self._running.append(subprocess.Popen([program, *words[1:]], cwd=self.folder, env=environment))
            wait_until_healthy(f"http://127.0.0.1:{self.port}", 30, self._check_alive)
            return
        fails = note == "fails"
        settings: Any = {"cwd": self.folder, "env": environment, "timeout": _TIMEOUT_S}
        if words[:2] == ["python", "-m"]:  # such as pytest, which is to be there before what it imports
            streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT if fails else subprocess.PIPE}
            finished = subprocess.run([program, *words[1:]], text=True, **streams, **settings)
        else:
            words = words[1:] if words[0] == "python" else [program, *words[1:]]
            finished = run_forked(words, merged=fails, **settings)
        assert (finished.returncode != 0) == fails, f"{command}: {finished.stderr or finished.stdout}"
        printed = _without_times(finished.stdout)
        assert _matches(printed, _without_times(output)), f"{command} printed:\n{printed}\nand not:\n{output}"

    def _check_alive(self) -> None:
        for process in self._running:
            assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"


def _matches(printed: str, output: str) -> bool:
    parts = [re.escape(part) for part in output.split("...")]
    return re.fullmatch(".*".join(parts), printed, re.DOTALL) is not None


def _without_times(text: str) -> str:
    """Take out how long something took, which no page can promise."""
    return re.sub(r"\b\d+\.\d+s\b", "0.00s", text)
