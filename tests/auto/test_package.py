"""What an environment's package hands out; ``test_classes`` covers how its classes are found."""

from pathlib import Path

import pytest
from tests.environment_folders import public_environment, scaffold, with_manifest_keys, write_files

from openenv.auto import EnvironmentPackage
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError
from openenv.core.mcp_client import MCPToolClient

described = EnvironmentPackage.from_folder


def names(package: EnvironmentPackage) -> list[str]:
    classes = (
        package.client_class(),
        package.action_class(),
        package.observation_class(),
        package.environment_class(),
    )
    return [cls.__name__ for cls in classes]


def test_a_scaffold_is_described_by_its_manifest(tmp_path: Path) -> None:
    package = described(scaffold(tmp_path, "my_env"))
    assert (package.name, package.module, package.version) == ("my_env", "my_env", "0.1.0")
    assert package.description == "Says back what it is told, and rewards long messages."
    assert names(package) == ["MyEnv", "MyAction", "MyObservation", "MyEnvironment"]


def test_describing_imports_nothing(tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"__init__.py": "raise SystemExit('imported')"})
    assert described(folder).name == "my_env"


def test_a_public_environment_needs_none_of_our_keys(tmp_path: Path) -> None:
    # The client's and the action's names do not follow from the package's.
    package = described(public_environment(tmp_path))
    assert names(package) == ["TallyGameEnv", "AddAction", "TallyObservation", "TallyEnvironment"]
    assert package.make_player(1) is None


def test_without_a_client_one_is_made_for_the_environment(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "client.py").unlink()
    write_files(folder, {"__init__.py": ""})
    client = described(with_manifest_keys(folder, client=None)).client_class()
    assert issubclass(client, EnvClient)
    assert client.__name__ == "MyEnv"


def test_tools_have_a_client_already(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    for name in ("client.py", "models.py"):
        (folder / name).unlink()
    app = "from .my_env_environment import MyEnvironment"
    code = "from openenv import Environment, tool\n\n\nclass MyEnvironment(Environment):\n    def reset(self): ...\n\n"
    code += '    @tool\n    def note(self) -> None:\n        """Note."""\n'
    write_files(folder, {"__init__.py": "", "server/app.py": app, "server/my_env_environment.py": code})
    package = described(with_manifest_keys(folder, client=None, action=None, observation=None))
    assert package.client_class() is MCPToolClient


def test_plain_models_are_found_by_the_environments_parameters(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    models = folder / "models.py"
    models.write_text(
        models.read_text()
        .replace("from openenv.core.env_server.types import Action, Observation", "from pydantic import BaseModel")
        .replace("(Action)", "(BaseModel)")
        .replace("(Observation)", "(BaseModel)")
    )
    package = described(with_manifest_keys(folder, action=None, observation=None))
    assert package.action_class().__name__ == "MyAction"
    assert package.observation_class().__name__ == "MyObservation"


def test_without_any_environment_the_key_is_asked_for(tmp_path: Path) -> None:
    folder = write_files(public_environment(tmp_path), {"server/app.py": "app = None"})
    with pytest.raises(ConfigurationError, match=r"no Environment class.*`environment: server\.my_environment"):
        described(folder).environment_class()


def test_players_with_one_seed_choose_alike(tmp_path: Path) -> None:
    package = described(scaffold(tmp_path, "my_env"))
    observation = package.observation_class()()
    first, second = package.make_player(7), package.make_player(7)
    assert first is not None
    assert second is not None
    assert [first(observation) for _ in range(9)] == [second(observation) for _ in range(9)]


def test_the_application_of_a_public_environment_imports_either_way(tmp_path: Path) -> None:
    folder = public_environment(tmp_path)
    app = folder / "server" / "app.py"
    app.write_text(app.read_text().replace("from ..models", "from models"))
    assert described(folder).app().title == "OpenEnv Environment HTTP API"
