"""``docs/architecture.md`` names files and names that are there."""

import re
from collections.abc import Iterator

import pytest
from tests.support.source import PACKAGE

PAGE = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text("utf-8")
WALKS = PAGE.partition("\n## Walks\n")[2].partition("\n## ")[0]
MADE = {
    str(file.relative_to(templates)).removesuffix(".tmpl").replace("__name__", "my_env")
    for templates in (PACKAGE / "cli" / "templates").glob("*")
    for file in templates.rglob("*.tmpl")
}
"""The files that ``openenv init my_env`` makes."""
_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w/]+(\.py|/)")


def steps() -> Iterator[tuple[str, list[str]]]:
    """Iterate over the steps of all walks, each with the texts that it quotes."""
    for step in re.split(r"\n(?=\d+\. |\n)", WALKS):
        yield step, _QUOTED.findall(step)


def test_the_page_has_walks() -> None:
    walks = re.findall(r"^### .*(?:\n(?!### ).*)*", WALKS, re.MULTILINE)
    assert len(walks) == 5
    for walk in walks:
        assert len(re.findall(r"^\d+\. `", walk, re.MULTILINE)) >= 8, walk


def test_each_path_of_a_walk_is_there() -> None:
    paths = [quoted for _, all_quoted in steps() for quoted in all_quoted if _PATH.fullmatch(quoted)]
    assert len(paths) > 40
    assert [path for path in paths if not (PACKAGE / path).exists() and path not in MADE] == []


def test_each_name_of_a_step_is_in_its_files() -> None:
    for step, quoted in steps():
        texts = [(PACKAGE / path).read_text("utf-8") for path in quoted if path.endswith(".py") and path not in MADE]
        names = [name for name in quoted if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", name) and not name.endswith(".py")]
        for name in names if texts else []:
            last = name.rpartition(".")[2]
            assert any(re.search(rf"\b{last}\b", text) for text in texts) or name in MADE, (name, step)


@pytest.mark.level("files")
def test_each_file_of_the_page_is_there() -> None:
    known = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")} | MADE
    named = {quoted for quoted in _QUOTED.findall(PAGE) if re.fullmatch(r"[\w/]+\.py", quoted)}
    assert len(named) > 60
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in known)] == []
