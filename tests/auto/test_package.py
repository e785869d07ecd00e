"""The classes of an environment's package, found by its manifest or by looking."""

from pathlib import Path

import pytest
import yaml
from tests.environment_folders import public_environment, scaffold, write_files

from openenv.auto import EnvironmentPackage
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError

TWO_ACTIONS = """
from openenv.core.env_server.types import Action, Observation

class Left(Action):
    pass

class Right(Action):
    pass

class {observation}(Observation):
    pass
"""


def package_in(folder: Path, **keys: str | None) -> EnvironmentPackage:
    """Describe a folder, with some keys of its manifest set, or deleted if ``None``."""
    file = folder / "openenv.yaml"
    manifest = {**yaml.safe_load(file.read_text()), **keys}
    file.write_text(yaml.safe_dump({key: value for key, value in manifest.items() if value is not None}))
    return EnvironmentPackage.from_folder(folder)


def names(package: EnvironmentPackage) -> list[str]:
    classes = (
        package.client_class(),
        package.action_class(),
        package.observation_class(),
        package.environment_class(),
    )
    return [cls.__name__ for cls in classes]


def test_a_scaffold_is_described_by_its_manifest(tmp_path: Path) -> None:
    package = EnvironmentPackage.from_folder(scaffold(tmp_path, "my_env"))
    assert (package.name, package.module, package.version) == ("my_env", "my_env", "0.1.0")
    assert package.description == "Says back what it is told, and rewards long messages."
    assert names(package) == ["MyEnv", "MyAction", "MyObservation", "MyEnvironment"]


def test_describing_imports_nothing(tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"__init__.py": "raise SystemExit('imported')"})
    assert EnvironmentPackage.from_folder(folder).name == "my_env"


def test_a_public_environment_needs_none_of_our_keys(tmp_path: Path) -> None:
    # The client's and the action's names do not follow from the package's.
    package = EnvironmentPackage.from_folder(public_environment(tmp_path))
    assert names(package) == ["TallyGameEnv", "AddAction", "TallyObservation", "TallyEnvironment"]
    assert package.make_player(1) is None


def test_public_keys_name_classes_without_their_module(tmp_path: Path) -> None:
    folder = write_files(
        public_environment(tmp_path), {"models.py": TWO_ACTIONS.format(observation="TallyObservation")}
    )
    write_files(folder, {"__init__.py": "", "client.py": ""})
    package = package_in(folder, action="Right", observation="TallyObservation")
    assert package.action_class().__name__ == "Right"


def test_several_candidates_are_listed_unless_one_has_the_usual_name(tmp_path: Path) -> None:
    folder = write_files(public_environment(tmp_path), {"models.py": TWO_ACTIONS.format(observation="Seen")})
    write_files(folder, {"__init__.py": "", "client.py": ""})
    package = EnvironmentPackage.from_folder(folder)
    assert package.observation_class().__name__ == "Seen"
    with pytest.raises(ConfigurationError, match=r"openenv\.yaml: `action` is needed, as each of Left, Right could be"):
        package.action_class()


def test_the_usual_name_decides_between_several(tmp_path: Path) -> None:
    text = TWO_ACTIONS.format(observation="Seen").replace("Right", "TallyAction")
    folder = write_files(public_environment(tmp_path), {"__init__.py": "", "client.py": "", "models.py": text})
    assert EnvironmentPackage.from_folder(folder).action_class().__name__ == "TallyAction"


def test_without_a_client_one_is_made_for_the_environment(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "client.py").unlink()
    write_files(folder, {"__init__.py": ""})
    client = package_in(folder, client=None).client_class()
    assert issubclass(client, EnvClient)
    assert client.__name__ == "MyEnv"


def test_plain_models_are_found_by_the_environments_parameters(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    models = folder / "models.py"
    models.write_text(
        models.read_text()
        .replace("from openenv.core.env_server.types import Action, Observation", "from pydantic import BaseModel")
        .replace("(Action)", "(BaseModel)")
        .replace("(Observation)", "(BaseModel)")
    )
    package = package_in(folder, action=None, observation=None)
    assert package.action_class().__name__ == "MyAction"
    assert package.observation_class().__name__ == "MyObservation"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("client", "client:Nothing", "`client` names 'Nothing', which my_env.client lacks"),
        ("client", "nowhere:MyEnv", "`client` names the module nowhere, which is not there"),
        ("client", "models:MyAction", "`client` must name a subclass of EnvClient, but that is <class"),
        ("environment", "models:MyAction", "`environment` must name a subclass of Environment"),
        ("action", "Nothing", "`action` was looked for in models, client; say where it is, as in module:Nothing"),
        ("action", "models:Field", "`action` must name a subclass of BaseModel, but that is <function Field"),
    ],
)
def test_wrong_keys_are_told_by_name(tmp_path: Path, key: str, value: str, expected: str) -> None:
    package = package_in(scaffold(tmp_path, "my_env"), **{key: value})
    with pytest.raises(ConfigurationError, match=r"openenv\.yaml") as error:
        getattr(package, f"{key}_class")()
    assert expected in str(error.value)


def test_without_any_environment_the_key_is_asked_for(tmp_path: Path) -> None:
    folder = write_files(public_environment(tmp_path), {"server/app.py": "app = None"})
    with pytest.raises(ConfigurationError, match=r"no Environment class.*`environment: server\.my_environment"):
        EnvironmentPackage.from_folder(folder).environment_class()


def test_players_with_one_seed_choose_alike(tmp_path: Path) -> None:
    package = EnvironmentPackage.from_folder(scaffold(tmp_path, "my_env"))
    observation = package.observation_class()()
    first, second = package.make_player(7), package.make_player(7)
    assert first is not None
    assert second is not None
    assert [first(observation) for _ in range(9)] == [second(observation) for _ in range(9)]


def test_the_application_of_a_public_environment_imports_either_way(tmp_path: Path) -> None:
    folder = public_environment(tmp_path)
    app = folder / "server" / "app.py"
    app.write_text(app.read_text().replace("from ..models", "from models"))
    assert EnvironmentPackage.from_folder(folder).app().title == "OpenEnv Environment HTTP API"
