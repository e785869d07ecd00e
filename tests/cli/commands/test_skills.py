"""``openenv skills`` as a person uses it, and that its page names only commands and options that there are."""

import re
from pathlib import Path
from typing import Any

import pytest

from openenv.cli.__main__ import COMMANDS, load_command
from openenv.cli.commands.skills import skill_text


def test_agents_get_a_link_to_one_page(openenv_here: Any, tmp_path: Path) -> None:
    page = openenv_here("skills", "preview").stdout
    ended = openenv_here("skills", "add", "--claude", "--cursor")
    written = tmp_path / ".agents/skills/openenv-cli"
    links = [tmp_path / f"{agent}/skills/openenv-cli" for agent in (".claude", ".cursor")]
    assert ended.stdout.splitlines() == [f"Wrote {written}", *(f"Linked {link}" for link in links)]
    assert all(link.is_symlink() and (link / "SKILL.md").read_text() == page for link in links)
    assert not (tmp_path / ".codex").exists()
    again = openenv_here("skills", "add", "--claude")
    assert (again.returncode, f"{links[0]} is there already; --force replaces it." in again.stderr) == (1, True)
    (written / "SKILL.md").write_text("old")
    assert openenv_here("skills", "add", "--claude", "--force").returncode == 0
    assert (links[1] / "SKILL.md").read_text() == page


def test_for_all_projects_of_a_user(openenv_here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert openenv_here("skills", "add", "--global", "--opencode", "--codex").returncode == 0
    for folder in (".agents", ".config/opencode", ".codex"):
        assert (home / folder / "skills/openenv-cli/SKILL.md").is_file()


def test_a_folder_of_ones_own(openenv_here: Any, tmp_path: Path) -> None:
    openenv_here("skills", "add", "--dest", tmp_path / "mine")
    assert (tmp_path / "mine/openenv-cli/SKILL.md").read_text() == skill_text()
    refused = openenv_here("skills", "add", "--dest", tmp_path / "other", "--claude")
    assert (refused.returncode, "--dest is the only folder" in refused.stderr) == (1, True)
    assert not (tmp_path / "other").exists()


def test_the_page_names_what_there_is() -> None:
    page = skill_text()
    for line in page.splitlines():
        named = re.findall(r"`openenv ([a-z]+)", line)
        assert set(named) <= set(COMMANDS)
        if len(named) != 1 or named == ["skills"]:
            continue
        options = {option for each in load_command(named[0]).params for option in each.opts}
        assert set(re.findall(r"--[a-z-]+", line)) <= options, line
