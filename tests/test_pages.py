"""A Markdown page is a test file of its own, which passes if its code runs and prints what the page says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.pages import pages_of

ROOT = Path(__file__).resolve().parent.parent
GREETING = """# Greeting

```python
# hello.py
print("hello")
```

```console
$ python -m hello
hello
$ python -m hello
{second}
```
"""
NUMBER = "# Number\n\n```python\nnumber = 1\n```\n\n{note}```python\nassert number == 2\n```\n"
SILENT = '# Silent\n\n```python\nprint("what it printed")\nimport threading\n\nthreading.Event().wait()\n```\n'
CALM = "# Calm\n\n```yaml\nsteps: 1\n```\n\n```bash\nmake test\n```\n"
WIDE = '# Wide\n\n```python\n# width.py\nimport os\n\nCOLUMNS = os.environ["COLUMNS"]\n```\n\n'
WIDE += '```python\nfrom pathlib import Path\n\nfrom width import COLUMNS\n\nassert COLUMNS == "200"\n'
WIDE += 'assert [file.name for file in Path().glob("*.py")] == ["width.py"]\n```\n'


def run_pages(folder: Path, pages: dict[str, str], *arguments: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    # Without what tells a process that pytest-xdist started it.
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    plugins = "-p xdist.plugin -p pytest_timeout -p tests.support.needs -p tests.support.pages"
    ours = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": plugins, "PATH": "/nowhere", "COLUMNS": "100"}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "--strict-markers", *arguments],
        cwd=folder,
        env={**usual, **ours, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    return ended.stdout


def outcomes(said: str) -> dict[str, str]:
    """Return how the test of each page ended, by its id."""
    lines = [line.split() for line in said.splitlines()]
    return {line[1]: line[0] for line in lines if len(line) > 1 and line[1].endswith("::page")}


def test_a_page_passes_if_it_is_right(tmp_path: Path) -> None:
    pages = {
        "README.md": GREETING.format(second="hello"),
        "CONTRIBUTING.md": CALM,
        "docs/right.md": NUMBER.format(note="<!-- not run: shows an error -->\n"),
        "docs/wrong.md": GREETING.format(second="good day"),
        "docs/failing.md": NUMBER.format(note=""),
        "docs/sandbox.md": NUMBER.format(note=""),
        "docs/folder/page.md": NUMBER.format(note=""),
        "tests/journeys/wide.md": WIDE,
        "tests/seeds/page.md": NUMBER.format(note=""),
    }
    said = run_pages(tmp_path, pages, "--numprocesses=2", "--dist=loadfile")

    assert "1 skipped" in said, "the sandbox's page, in which it is not"
    assert outcomes(said) == {
        "README.md::page": "PASSED",
        "docs/right.md::page": "PASSED",
        "docs/wrong.md::page": "FAILED",
        "docs/failing.md::page": "FAILED",
        "tests/journeys/wide.md::page": "PASSED",
    }, said
    assert f"{tmp_path}/docs/wrong.md:11: $ python -m hello" in said
    assert ">   assert number == 2" in said
    assert "docs/failing.md:8: AssertionError" in said


def test_a_page_that_hangs_is_ended_and_shows_what_it_printed(tmp_path: Path) -> None:
    said = run_pages(tmp_path, {"docs/silent.md": SILENT}, "--timeout=1", "docs/silent.md::page")

    assert outcomes(said) == {"docs/silent.md::page": "FAILED"}, said
    assert "Failed: Timeout (>1.0s) from pytest-timeout" in said
    assert "what it printed" in said


def test_every_page_is_collected_where_no_path_is_given(pytestconfig: pytest.Config) -> None:
    paths = {path for pattern in pytestconfig.getini("testpaths") for path in ROOT.glob(pattern)}

    assert [page for page in pages_of(ROOT) if not paths & {page, *page.parents}] == []
    assert {path.parent.name for path in pages_of(ROOT)} == {ROOT.name, "benchmarks", "docs", "journeys"}
