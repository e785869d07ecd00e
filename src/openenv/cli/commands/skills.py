"""``openenv skills``: a page about this command for coding agents, written into their folders."""

import os
import shutil
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from openenv import __version__
from openenv.cli.groups import command_group
from openenv.core.exceptions import ConfigurationError

SKILL = "openenv-cli"
"""Name of the skill, and of its folder."""

SHARED_FOLDER = Path(".agents/skills")
AGENT_FOLDERS = {
    "claude": Path(".claude/skills"),
    "codex": Path(".codex/skills"),
    "cursor": Path(".cursor/skills"),
    "opencode": Path(".opencode/skills"),
}
"""Folder of each agent's skills, below a project's folder."""

_OF_USER = {"opencode": Path(".config/opencode/skills")}
"""Folder of a user's skills for an agent, where that is another folder below the home."""

app = command_group("Write a page about this command for coding agents.")

Claude = Annotated[bool, typer.Option("--claude", help="Link it for Claude.")]
Codex = Annotated[bool, typer.Option("--codex", help="Link it for Codex.")]
Cursor = Annotated[bool, typer.Option("--cursor", help="Link it for Cursor.")]
OpenCode = Annotated[bool, typer.Option("--opencode", help="Link it for OpenCode.")]
Global = Annotated[bool, typer.Option("--global", "-g", help="For all your projects, below your home folder.")]
Destination = Annotated[Path | None, typer.Option("--dest", metavar="FOLDER", help="Folder of skills, and no other.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the skill where it is there already.")]


@app.command("preview")
def skills_preview() -> None:
    """Print the page."""
    typer.echo(skill_text(), nl=False)


@app.command("add")
def skills_add(
    claude: Claude = False,
    codex: Codex = False,
    cursor: Cursor = False,
    opencode: OpenCode = False,
    everywhere: Global = False,
    destination: Destination = None,
    force: Force = False,
) -> None:
    """Write the page to .agents/skills in this folder.

    It is linked to where the named agents look.
    """
    named = {"claude": claude, "codex": codex, "cursor": cursor, "opencode": opencode}
    agents = [agent for agent, is_named in named.items() if is_named]
    if destination is not None:
        if agents or everywhere:
            raise ConfigurationError("--dest is the only folder that the skill is written to; leave out the agents.")
        typer.echo(f"Wrote {_write(destination.expanduser(), force)}")
        return
    top = Path.home() if everywhere else Path.cwd()
    links = [top / _folder_of(agent, of_user=everywhere) / SKILL for agent in agents]
    if not force:
        _refuse_existing(links)
    skill = _write(top / SHARED_FOLDER, force)
    typer.echo(f"Wrote {skill}")
    for link in links:
        _remove(link)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(skill, link.parent.resolve()))
        typer.echo(f"Linked {link}")


def skill_text() -> str:
    """Return the page, as Markdown with the front matter by which agents choose it."""
    page = files("openenv.cli.templates").joinpath("skill.md.tmpl").read_text(encoding="utf-8")
    return Template(page).substitute(version=__version__)


def _folder_of(agent: str, *, of_user: bool) -> Path:
    return _OF_USER.get(agent, AGENT_FOLDERS[agent]) if of_user else AGENT_FOLDERS[agent]


def _write(folder: Path, force: bool) -> Path:
    skill = folder.resolve() / SKILL
    if not force:
        _refuse_existing([skill])
    _remove(skill)
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(skill_text(), encoding="utf-8")
    return skill


def _refuse_existing(paths: list[Path]) -> None:
    there = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if there:
        raise ConfigurationError(f"{', '.join(there)} is there already; --force replaces it.")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
