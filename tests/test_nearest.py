"""The tests nearest to a change are chosen, within a limit; what is left out is counted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.costs import Cost, file_of
from tests.support.import_graph import ROOT, ImportGraph
from tests.support.nearest import Choice, changed_files, choose, distances, mirrored
from tests.support.needs import require

TREE = {
    "src/openenv/__init__.py": "",
    "src/openenv/core/__init__.py": "",
    "src/openenv/core/seeds.py": "SEED = 1\n",
    "src/openenv/core/games.py": "from openenv.core.seeds import SEED\n",
    "src/openenv/core/untested.py": "",
    "src/openenv/pages/page.html": "",
    "envs/dice_env/__init__.py": "from dice_env.models import Roll\n",
    "envs/dice_env/models.py": "from openenv.core.games import SEED\nRoll = SEED\n",
    "envs/dice_env/openenv.yaml": "",
    "envs/dice_env/tests/test_models.py": "import dice_env\n",
    "tests/conftest.py": "",
    "tests/core/test_seeds.py": "from openenv.core import seeds\n",
    "tests/core/test_games.py": "from openenv.core import games\n",
    "tests/test_far.py": "def later():\n    import dice_env\n",
    "tests/test_alone.py": "",
    "tests/test_play.py": "NAMES = ['dice_env']\n",
    "envs/tests/test_served.py": "from .every_environment import each_environment\n",
    "tests/pages/test_page.py": "NAME = 'page.html'\n",
    "src/openenv/pages/list.js": "",
    "tests/records/test_lines.py": "NAMES = ['list.json', 'new-list.js', 'dice_environment']\n",
    "tests/browser/test_lists.py": "from tests.support.web_pages import open_page\n",
    "README.md": "",
}
TESTS = [Path(name) for name in TREE if Path(name).name.startswith("test_")] + [Path("README.md")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            "src/openenv/core/seeds.py",
            {
                "tests/core/test_seeds.py": 0,
                "tests/core/test_games.py": 3,
                "envs/dice_env/tests/test_models.py": 5,
                "tests/test_far.py": 5,
            },
        ),
        (
            "envs/dice_env/models.py",
            {
                "envs/dice_env/tests/test_models.py": 0,
                "envs/tests/test_served.py": 1,
                "tests/test_far.py": 3,
                "tests/test_play.py": 1,
            },
        ),
        (
            "envs/dice_env/openenv.yaml",
            {
                "envs/dice_env/tests/test_models.py": 0,
                "envs/tests/test_served.py": 1,
                "tests/test_far.py": 1,
                "tests/test_play.py": 1,
            },
        ),
        ("src/openenv/core/untested.py", {"tests/core/test_seeds.py": 0, "tests/core/test_games.py": 0}),
        ("src/openenv/pages/page.html", {"tests/pages/test_page.py": 0, "tests/browser/test_lists.py": 1}),
        ("src/openenv/pages/list.js", {"tests/pages/test_page.py": 0, "tests/browser/test_lists.py": 1}),
        ("tests/test_alone.py", {"tests/test_alone.py": 0}),
        ("README.md", {"README.md": 0}),
        ("elsewhere/page.html", {"tests/pages/test_page.py": 1, "tests/browser/test_lists.py": 1}),
        ("elsewhere/list.md", {}),
    ],
)
def test_near_is_what_mirrors_a_change_then_what_imports_it(tree: Path, changed: str, expected: dict[str, int]) -> None:
    found = distances([Path(changed)], ImportGraph(tree), TESTS)
    assert {str(path): distance for path, distance in found.items()} == expected


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("src/openenv/core/env_server/sessions/session.py", "tests/core/env_server/sessions/test_session.py"),
        ("src/openenv/core/client/vector.py", "tests/core/client/vector"),
        ("src/openenv/core/env_server/operations/requests.py", "tests/core/env_server/operations"),
        ("src/openenv/core/env_server/static/new/page.js", "tests/core/env_server"),
        ("benchmarks/rows.py", "tests/benchmarks/test_rows.py"),
        ("envs/sudoku_env/server/puzzles.py", "envs/sudoku_env/tests/server"),
        ("envs/sudoku_env/openenv.yaml", "envs/sudoku_env/tests"),
        ("Makefile", None),
    ],
)
def test_a_file_is_mirrored_by_a_file_or_a_folder(path: str, tests: str | None) -> None:
    assert mirrored(Path(path)) == (None if tests is None else Path(tests))


def test_the_tests_of_a_folder_are_near_to_its_fixtures(tree: Path) -> None:
    found = distances([Path("tests/core/conftest.py")], ImportGraph(tree), TESTS)
    assert found == {Path("tests/core/test_seeds.py"): 0, Path("tests/core/test_games.py"): 0}


def choice(limit_s: float, **found: int) -> Choice:
    costs = {
        "tests/a.py::cheap": Cost(1, 1),
        "tests/a.py::dear": Cost(50, 50),
        "tests/b.py::one": Cost(5, 5),
        "tests/b.py::two": Cost(6, 6),
        "tests/c.py::slow": Cost(1, 500),
        "tests/deep/in/d.py::one": Cost(2, 2),
    }
    tests: dict[Path, list[str]] = {}
    for test in costs:
        tests.setdefault(Path(file_of(test)), []).append(test)
    return choose({Path(f"tests/{name}.py"): distance for name, distance in found.items()}, tests, costs, limit_s)


def test_the_nearest_come_first_and_the_cheapest_of_them() -> None:
    assert choice(100, a=1, b=0).files == ["tests/b.py", "tests/a.py"]
    assert choice(100, a=0, b=0).files == ["tests/b.py", "tests/a.py"]


def test_what_would_pass_the_limit_is_left_out_and_counted_by_folder() -> None:
    chosen = choice(10, a=0, b=1, c=0)
    assert chosen.files == ["tests/a.py", "tests/b.py"]
    assert chosen.left_out == ["tests/a.py::dear", "tests/b.py::two"]
    assert chosen.cost == Cost(6, 6)
    assert chosen.not_run == {"tests": 3, "tests/deep": 1}


def test_a_file_of_which_nothing_is_on_record_costs_as_much_as_files_do_on_average() -> None:
    unknown = {Path(f"tests/new_{distance}.py"): distance for distance in (0, 1, 2)}
    known = {"tests/a.py::one": Cost(4, 4), "tests/b.py::one": Cost(8, 8)}
    files = {Path(file_of(test)): [test] for test in known}
    assert choose(unknown, files, known, 13).files == ["tests/new_0.py", "tests/new_1.py"]
    assert choose(unknown, files, known, 1).files == ["tests/new_0.py"]
    assert choose(unknown, {}, {}, 1).files == [f"tests/new_{distance}.py" for distance in (0, 1, 2)]


def test_tests_are_left_out_by_their_whole_ids(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_suite.py").write_text("def test_it(): assert False\ndef test_it_too(): ...\n")
    (tmp_path / "left-out").write_text("test_suite.py::test_it\ntest_suite.py::test_gone")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.left_out", "--left-out=left-out"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert "1 passed, 1 deselected" in ended.stdout


def test_a_file_that_is_not_on_record_is_run() -> None:
    assert choice(10, new=0).files == ["tests/new.py"]


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *arguments], cwd=folder, check=True)


def test_changed_is_what_differs_from_where_the_branch_left(tmp_path: Path) -> None:
    require("git")
    git(tmp_path, "init", "-q", "-b", "main")
    for name in ("kept", "edited", "removed", "ä name"):
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "checkout", "-qb", "branch")
    (tmp_path / "edited").write_text("other")
    (tmp_path / "ä name").write_text("other")
    git(tmp_path, "commit", "-qam", "second")
    (tmp_path / "removed").unlink()
    (tmp_path / "new").write_text("new")
    git(tmp_path, "checkout", "-q", "main")
    (tmp_path / "kept").write_text("newer on main")
    git(tmp_path, "commit", "-qm", "on main", "kept")
    git(tmp_path, "checkout", "-q", "branch")
    assert set(changed_files("main", tmp_path)) == {Path("edited"), Path("ä name"), Path("removed"), Path("new")}


def test_the_command_lists_what_it_would_run_and_what_not() -> None:
    require("git")
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git repository")
    listed = subprocess.run(
        [sys.executable, "-m", "tests.support.nearest", "--base", "HEAD", "--list"],
        cwd=ROOT,
        env={**os.environ},
        capture_output=True,
        text=True,
    )
    assert listed.returncode == 0, listed.stderr
    assert "changed files; the nearest" in listed.stdout
    assert "Not run: " in listed.stdout


@pytest.mark.level("service")
def test_the_command_runs_what_it_has_chosen(tmp_path: Path) -> None:
    require("git")
    copy = tmp_path / "copy"
    git(ROOT, "clone", "-q", "--no-hardlinks", ".", str(copy))
    changed = copy / "src" / "openenv" / "core" / "seeding.py"
    changed.write_text(f"{changed.read_text()}\n")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.nearest", "--base", "HEAD", "--limit-s", "1"],
        cwd=copy,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "  tests/core/test_seeding.py\n" in ran.stdout
    assert " passed" in ran.stdout
