"""READMEs, taken apart."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.auto.manifest import load_manifest
from openenv.auto.readme import Readme, described_by_readme, parse_readme, read_readme

PAGE = """---
title: Go
---

# Go

![a board](board.svg)

Surround stones
on a board.

- **Action** `GoAction(x, y)`: a point.
- **Observation** `GoObservation`:
  - `board`: all points.
- **Reward**: 1.0 for a win,
  -1.0 for a loss.
- **End**: both passed.

After it.

## Use it

```python
import go
```

```python
import other
```

## The player

It passes. It wins 0.1 of its games.

### Why

It is shy.
"""


def test_each_part_is_found() -> None:
    readme = parse_readme(PAGE)
    assert readme.summary == "Surround stones on a board."
    assert readme.facts["reward"] == "1.0 for a win, -1.0 for a loss."
    assert readme.facts["end"] == "both passed."
    assert readme.facts["action"] == "`GoAction(x, y)`: a point."
    assert readme.facts["observation"] == "`GoObservation`:"
    assert readme.example == "import go"
    assert readme.sections["the player"] == "It passes. It wins 0.1 of its games."
    assert readme.sections["why"] == "It is shy."


def test_a_folder_without_one_has_an_empty_one(tmp_path: Path) -> None:
    assert read_readme(tmp_path) == Readme()
    (tmp_path / "README.md").write_bytes(b"# \xff\n\nhello")
    assert read_readme(tmp_path).summary == "hello"


@given(st.text())
def test_any_text_can_be_taken_apart(text: str) -> None:
    parse_readme(text)


@pytest.mark.parametrize(
    "text",
    [
        "# " + " " * 200_000 + "x",
        "- **a**: b\n" + "  c\n" * 50_000,
        "- **a**: b\n  c\n" * 20_000,
        "```python\n" * 20_000,
        "\n \t" * 60_000 + "x",
        "---\n" * 40_000,
    ],
)
def test_a_hostile_readme_takes_no_time_beyond_its_length(text: str) -> None:
    parse_readme(text)  # a test of this level has 0.3 s; the square of the length took minutes


def test_a_pipe_in_place_of_a_readme_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "README.md")
    assert read_readme(tmp_path) == Readme()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# Go\n\nSurround stones. More of it.\n", "Surround stones."),
        ("---\ntitle: x\n---\n# Go\n\nUp to version 1.5\nof the game! Yes.", "Up to version 1.5 of the game!"),
        ("# Go\n\nNo stop", "No stop"),
        ("# Go\n\n| a | b |\n\n## More\n", ""),
        ("x" * 300, "x" * 200),
    ],
)
def test_the_first_sentence_describes_the_environment(tmp_path: Path, text: str, sentence: str) -> None:
    assert described_by_readme(tmp_path) == ""
    (tmp_path / "README.md").write_text(text)
    assert described_by_readme(tmp_path) == sentence
    (tmp_path / "openenv.yaml").write_text("name: go")
    assert load_manifest(tmp_path).description == sentence
    (tmp_path / "openenv.yaml").write_text("name: go\ndescription: Said here.")
    assert load_manifest(tmp_path).description == "Said here."
