"""The files of the page "From a CSV to a trained model" are those of the example."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.snippets import blocks_of

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "tickets"


@pytest.mark.parametrize("name", ["write_tasks.py", "tickets.py", "recipe.yaml"])
def test_a_file_of_the_page_is_that_of_the_example(name: str) -> None:
    (block,) = (block for block in blocks_of(ROOT / "docs" / "from-a-csv.md") if block.path == name)
    # The example is linted, and the page has no remarks for that.
    example = re.sub(r"  # noqa.*", "", (EXAMPLE / name).read_text(encoding="utf-8"))
    assert block.text == f"# {name}\n{example}"


def test_the_table_of_the_example_is_what_its_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, EXAMPLE / "write_tasks.py"], cwd=tmp_path, check=True)
    assert (tmp_path / "tasks.csv").read_bytes() == (EXAMPLE / "tasks.csv").read_bytes()
