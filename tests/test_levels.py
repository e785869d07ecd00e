"""The level of a test is read from what it uses, before anything is imported."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.import_graph import ROOT, ImportGraph
from tests.support.levels import LEVELS, LIBRARIES, LIMITS_S, LevelReader, read_levels

SUITE = {
    "src/openenv/__init__.py": """
from openenv._lazy import lazy_exports
__all__, __getattr__, __dir__ = lazy_exports(__name__, {"openenv.auto": ("make",)})
""",
    "src/openenv/_lazy.py": "",
    "src/openenv/auto/__init__.py": """
from openenv._lazy import lazy_exports
__all__, __getattr__, __dir__ = lazy_exports(__name__, {"openenv.auto.making": ("make",)})
""",
    "src/openenv/auto/making.py": "def make(): ...\n",
    "src/openenv/trainer.py": "import torch\n",
    "tests/conftest.py": """
import pytest
from tests.support.servers import RunningServer

@pytest.fixture
def server():
    with RunningServer() as server:
        yield server

@pytest.fixture
def client(server):
    return server

@pytest.fixture
def database(request):
    return request.getfixturevalue("cluster")

@pytest.fixture
def cluster():
    from tests.support.services.postgres import running_postgres
    return running_postgres()
""",
    "tests/support/servers.py": "import socket\nclass RunningServer: ...\n",
    "tests/support/services/postgres.py": "def running_postgres(): ...\n",
    "tests/support/helpers.py": """
import subprocess

def start():
    return subprocess.Popen(["true"])

def harmless():
    return 3
""",
    "tests/test_all.py": """
import socket
import openenv
import pytest
from hypothesis import given
from openenv import make
from tests.support.helpers import harmless, start
from tests.support.needs import require

COMMAND = start
MODES = [{"isolation": "process"}]

def test_memory(): assert harmless() == 3
def test_files(tmp_path): ...
def test_property(): ...
test_property = given(test_property)
def test_socket(): socket.create_server(("127.0.0.1", 0))
def test_fixture_of_a_fixture(client): ...
def test_fixture_by_its_name(database): ...
@pytest.mark.usefixtures("server")
def test_used_fixture(): ...
def test_helper(): start()
def test_constant(): COMMAND()
def test_lazy_name(): make("echo")
def test_attribute_of_a_module(): openenv.make("echo")
@pytest.mark.parametrize("settings", MODES)
def test_mode(settings): ...
@pytest.mark.needs("sandbox")
def test_need(): ...
def test_required(): require("browser")
@pytest.mark.level("command")
def test_marked(): ...
def test_library():
    import torch

class TestClass:
    @pytest.fixture
    def started(self): return start()
    def test_method(self): ...
    def test_own_fixture(self, started): ...
""",
    "tests/test_heavy.py": "import openenv.trainer\ndef test_nothing(): ...\n",
    "tests/deep/conftest.py": """
import pytest

@pytest.fixture(autouse=True)
def always(tmp_path): ...
""",
    "tests/deep/test_deep.py": "def test_nothing(): ...\n",
    "tests/test_marked.py": "import pytest\npytestmark = pytest.mark.level('service')\ndef test_nothing(): ...\n",
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    for name, text in SUITE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_test_has_the_highest_level_of_what_it_uses(suite: Path) -> None:
    assert read_levels(suite)["tests/test_all.py"] == {
        "test_memory": "memory",
        "test_files": "files",
        "test_property": "files",
        "test_socket": "socket",
        "test_fixture_of_a_fixture": "socket",
        "test_fixture_by_its_name": "service",
        "test_used_fixture": "socket",
        "test_helper": "process",
        "test_constant": "process",
        "test_lazy_name": "process",
        "test_attribute_of_a_module": "process",
        "test_mode": "process",
        "test_need": "process",
        "test_required": "browser",
        "test_marked": "command",
        "test_library": "training",
        "TestClass.test_method": "memory",
        "TestClass.test_own_fixture": "process",
    }


def test_what_a_file_loads_or_says_of_itself_is_the_least_for_its_tests(suite: Path) -> None:
    levels = read_levels(suite)
    assert levels["tests/test_heavy.py"] == {"test_nothing": "training"}
    assert levels["tests/deep/test_deep.py"] == {"test_nothing": "files"}
    assert levels["tests/test_marked.py"] == {"test_nothing": "service"}


def test_a_change_is_seen(suite: Path) -> None:
    assert read_levels(suite)["tests/deep/test_deep.py"] == {"test_nothing": "files"}
    (suite / "tests/deep/test_deep.py").write_text("import subprocess\ndef test_new(): subprocess.run(['true'])\n")
    assert read_levels(suite)["tests/deep/test_deep.py"] == {"test_new": "process"}


def test_some_files_suffice_and_are_of_the_levels_that_all_are(suite: Path) -> None:
    some = read_levels(suite, ["tests/test_marked.py", "tests/test_heavy.py", "elsewhere.py"])
    assert some == {
        "tests/test_marked.py": {"test_nothing": "service"},
        "tests/test_heavy.py": {"test_nothing": "training"},
    }
    assert "tests/test_all.py" in read_levels(suite)


def test_a_page_has_a_level(suite: Path) -> None:
    (suite / "docs").mkdir()
    (suite / "docs" / "playing.md").write_text("```console\n$ openenv list\n```\n")
    (suite / "docs" / "training.md").write_text("```console\n$ openenv train catch\n```\n")
    levels = read_levels(suite)
    assert levels["docs/playing.md"] == {"page": "process"}
    assert levels["docs/training.md"] == {"page": "training"}


def test_every_level_has_tests_and_a_limit_no_lower_than_the_one_before() -> None:
    used = {level for tests in read_levels().values() for level in tests.values()}
    assert used == set(LEVELS)
    limits = [LIMITS_S[level] for level in LEVELS]
    assert LIMITS_S.keys() == set(LEVELS)
    assert limits[:6] == sorted(limits[:6])


def test_the_reader_of_this_repository_knows_what_is_where() -> None:
    reader = LevelReader(ImportGraph())
    assert reader.level_of(Path("tests/core/test_seeding.py"), "test_a_seed_repeats") in LEVELS
    assert reader.floor_of(Path("tests/train/run/test_grpo.py")) == "training"
    assert reader.floor_of(Path("tests/core/env_server/sessions/test_session.py")) == "memory"


@pytest.mark.level("service")
def test_collecting_the_first_levels_loads_no_library_of_training_nor_of_an_environment(tmp_path: Path) -> None:
    (tmp_path / "loaded.py").write_text(
        "import sys\n"
        "def pytest_collection_finish(session):\n"
        f"    print('LOADED', sorted(set(sys.modules) & {set(LIBRARIES)!r}), len(session.items))\n"
    )
    levels = ",".join(LEVELS[:3])
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "loaded", f"--level={levels}", "--collect-only", "-qq", "-s"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-2000:]
    line = next(line for line in ended.stdout.splitlines() if line.startswith("LOADED"))
    assert line.startswith("LOADED [] ")
    assert int(line.split()[-1]) > 1000
