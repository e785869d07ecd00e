"""Imports are read from source: those that run with a module, those of its functions, and names handed out lazily."""

from pathlib import Path

import pytest
from tests.support.import_graph import ImportGraph, module_name

FILES = {
    "src/house/__init__.py": """
from typing import TYPE_CHECKING
from house._lazy import lazy_exports
if TYPE_CHECKING:
    from house.roof import Roof as Roof
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, {"house.roof": ("Roof", "Tile"), "house.cellar": ("Wine",)})
""",
    "src/house/_lazy.py": "def lazy_exports(*arguments): ...\n",
    "src/house/roof.py": """
import json
try:
    import torch.nn
except ImportError:
    torch = None
if json:
    from .cellar import Wine as Drink

class Roof:
    from house.chimney import smoke

    def mend(self):
        import numpy
        from . import garden

if __name__ == "__main__":
    import typer
""",
    "src/house/cellar.py": "class Wine: ...\n",
    "src/house/chimney.py": """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from house.roof import Roof
smoke = 1
""",
    "src/house/garden.py": "from house import Roof\nfrom house.wing.stairs import steps\n",
    "src/house/wing/__init__.py": "from house.wing.stairs import steps\n",
    "src/house/wing/stairs.py": "steps = 3\n",
    "src/round/__init__.py": "",
    "src/round/one.py": "from round import two\n",
    "src/round/two.py": "def later():\n    import round.three\nfrom round.three import x\n",
    "src/round/three.py": "from round.one import two\nx = 1\n",
    "src/round/early.py": "from round import missing\n",
    "envs/shed_env/__init__.py": "from .server.shed import Shed\n",
    "envs/shed_env/server/shed.py": "from house import Wine\nfrom ..models import M\n",
    "envs/shed_env/models.py": "M = 1\n",
    "tests/test_house.py": "import house\nimport house.wing.stairs as up\npytest_plugins = ['tests.plugin']\n",
    "tests/plugin.py": "from house.wing import steps\n",
}


@pytest.fixture
def graph(tmp_path: Path) -> ImportGraph:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return ImportGraph(tmp_path)


def test_what_runs_with_a_module_is_kept_apart_from_what_its_functions_import(graph: ImportGraph) -> None:
    roof = graph.module("house.roof")
    assert roof.imports == {"json", "torch", "house.cellar", "house.chimney"}
    assert roof.later_imports == {"numpy", "house.garden", "typer"}
    assert roof.path == Path("src/house/roof.py")


def test_what_only_a_type_checker_reads_is_no_import(graph: ImportGraph) -> None:
    assert graph.module("house.chimney").imports == {"typing"}


def test_a_lazy_name_is_an_import_of_its_module_and_packages_run_first(graph: ImportGraph) -> None:
    assert graph.module("house.garden").imports == {"house.roof", "house.wing", "house.wing.stairs"}
    assert graph.module("shed_env.server.shed").imports == {"house", "house.cellar", "shed_env.models"}
    assert "house.roof" not in graph.loaded_with(["house"])


def test_plugins_of_tests_are_imports(graph: ImportGraph) -> None:
    assert graph.module("tests.test_house").imports == {"house", "house.wing", "house.wing.stairs", "tests.plugin"}


def test_everything_that_comes_with_an_import(graph: ImportGraph) -> None:
    assert graph.loaded_with(["shed_env"]) == {
        *("shed_env", "shed_env.server.shed", "shed_env.models"),
        *("house", "house._lazy", "house.cellar", "typing"),
    }


def test_distances_count_imports_of_both_kinds(graph: ImportGraph) -> None:
    distances = graph.distances_to(["house.wing.stairs"])
    assert {name: distances[name] for name in ("house.wing.stairs", "house.wing", "tests.plugin", "house.roof")} == {
        "house.wing.stairs": 0,
        "house.wing": 1,
        "house.roof": 2,
        "tests.plugin": 2,
    }
    assert "house.cellar" not in distances


def test_names_lead_to_where_they_are_defined(graph: ImportGraph) -> None:
    assert graph.module("house.garden").names == {"Roof": "house.roof.Roof", "steps": "house.wing.stairs.steps"}
    assert graph.full_name("house", "Wine") == "house.cellar.Wine"
    assert graph.full_name("house.wing", "steps") == "house.wing.stairs.steps"
    assert graph.full_name("house", "garden") == "house.garden"


def test_a_circle_is_found_and_imports_of_functions_make_none(graph: ImportGraph) -> None:
    circle = graph.circle(["round", "round.one", "round.two", "round.three"])
    assert set(circle) == {"round.one", "round.two", "round.three"}
    house = [module.name for module in graph if module.name.startswith("house")]
    assert graph.circle(house) == []


def test_a_name_of_the_package_around_has_to_be_there_before(graph: ImportGraph) -> None:
    assert "round" in graph.module("round.early").imports


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/openenv/core/seeding.py", "openenv.core.seeding"),
        ("envs/echo_env/__init__.py", "echo_env"),
        ("tests/conftest.py", "tests.conftest"),
        ("conftest.py", "conftest"),
    ],
)
def test_a_file_has_the_name_that_it_is_imported_by(path: str, name: str) -> None:
    assert module_name(Path(path)) == name
