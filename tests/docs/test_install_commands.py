"""Commands that install something, in code, docs, environments and examples, fetch nothing by a name of this project.

On the package index, ``openenv`` and ``openenv-core`` are another project's, and every other such name may become
anybody's. So a folder, a file or an address is named, or else what an extra requires.
"""

import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from openenv._extras import install_command

ROOT = Path(__file__).parents[2]
FOLDERS = ("README.md", "CONTRIBUTING.md", "docs", "envs", "examples", "src/openenv", "distributions")
WARNS_OF = {("docs/install.md", "openenv-core")}
"""Pages that name a command to warn of it."""

_INSTALLS = r"(?:pip3? install|uv add|uv tool (?:install|run)|uvx|pipx (?:install|run))"
_COMMAND = re.compile(rf"(?:`{_INSTALLS}([^`]*)`)|(?:{_INSTALLS}([^`#\n]*))")
_OURS = re.compile(r"[\"'(]*openenv([-_.]\w+)*(\[[\w,-]+\])?([<>=~!].*)?[\"',.);]*")


def _names_of_ours(text: str) -> list[str]:
    return [
        word
        for found in _COMMAND.finditer(text)
        for word in (found[1] or found[2] or "").split()
        if _OURS.fullmatch(word)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "pip install openenv",
        'pip install "openenv-core[train]"',
        "`pip install openenv-wordle-env` (or",
        "pip install torch 'openenv-core>=0.11'",
        'With `pip install\n"openenv-core[inspect]" openai`, any',
        "uv add openenv_core",
        "uvx openenv info",
    ],
)
def test_a_name_of_this_project_is_found(text: str) -> None:
    assert _names_of_ours(text)


@pytest.mark.parametrize(
    "text",
    ["pip install ./openenv", 'pip install ".[train]"', "pip install dist/openenv*.whl", "pip install uv\nopenenv"],
)
def test_a_folder_or_a_file_is_no_such_name(text: str) -> None:
    assert not _names_of_ours(text)


@pytest.mark.level("process")
def test_no_command_names_a_package_of_this_project() -> None:
    listed = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in listed.stdout.splitlines() if not name.endswith((".svg", ".png", ".json"))]
    texts = {str(file.relative_to(ROOT)): file.read_text(errors="replace") for file in files if file.is_file()}
    found = {(name, word) for name, text in texts.items() for word in _names_of_ours(text)}
    assert found == WARNS_OF


def test_the_command_of_an_extra_names_what_it_requires() -> None:
    for extra in ("train", "hub", "postgres"):
        command = install_command(extra)
        assert command.startswith("pip install ")
        assert not _names_of_ours(command)
    assert {Requirement(word.strip("'")).name for word in install_command("ray").split()[2:]} == {"httpx", "ray"}
