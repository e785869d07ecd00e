"""What an environment's package hands out; ``test_classes`` covers how its classes are found."""

import sys
from pathlib import Path

import pytest
import yaml
from tests.support.environment_folders import (
    fresh_scaffold,
    public_environment,
    scaffold,
    with_manifest_keys,
    write_files,
)
from tests.support.public_folders import PUBLIC_FOLDERS, diary_env

from openenv.auto import EnvironmentPackage
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError
from openenv.core.mcp_client import MCPToolClient

described = EnvironmentPackage.from_folder

OTHER = """
from models import PushObservation
from openenv_core.env_server import Environment, State


class OtherEnvironment(Environment):
    def reset(self):
        return PushObservation(hint="other")

    def step(self, action):
        return PushObservation()

    @property
    def state(self):
        return State()


RelicEnvironment = OtherEnvironment
"""


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
    assert package.description == "Says back each message."
    assert names(package) == ["MyEnv", "MyAction", "MyObservation", "MyEnvironment"]


def test_a_new_environment_is_described_without_keys_for_that(tmp_path: Path) -> None:
    package = described(fresh_scaffold(tmp_path, "my_env"))
    assert package.description == "Walk to a goal on a field of five by five, in six steps."
    keys = list(yaml.safe_load((package.folder / "openenv.yaml").read_text()))
    assert keys == ["spec_version", "name", "version", "type", "runtime", "app", "port", "player", "validation"]
    assert names(package) == ["MyEnv", "MyAction", "MyObservation", "MyEnvironment"]


def test_describing_imports_nothing(tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"__init__.py": "raise SystemExit('imported')"})
    assert described(folder).name == "my_env"


def test_a_public_environment_needs_none_of_our_keys(tmp_path: Path) -> None:
    # The client's and the action's names do not follow from the package's.
    package = described(public_environment(tmp_path))
    assert names(package) == ["TallyGameEnv", "AddAction", "TallyObservation", "TallyEnvironment"]
    assert package.make_player(1) is None


@pytest.mark.filterwarnings("ignore:openenv_core is now:DeprecationWarning")
def test_absolute_imports_of_several_folders_are_not_mixed_up(tmp_path: Path) -> None:
    for name in ("relic_env", "other_env"):
        PUBLIC_FOLDERS["relic_env"](tmp_path / name)
    other = (tmp_path / "other_env" / "relic_env").rename(tmp_path / "other_env" / "other_env")
    (other / "pyproject.toml").unlink()
    write_files(other, {"server/relic_environment.py": OTHER})
    (other / "server" / "__init__.py").unlink()
    path, modules = list(sys.path), {"models", "server"}
    classes = [described(folder).environment_class() for folder in (tmp_path / "relic_env" / "relic_env", other)]
    assert [cls.__name__ for cls in classes] == ["RelicEnvironment", "OtherEnvironment"]
    assert str(other) not in set(sys.path) - set(path)
    assert modules.isdisjoint(sys.modules)
    assert described(other).environment_class() is classes[1]


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
    assert described(folder).app().title == "tally_env"


def test_an_application_may_be_named_with_or_without_a_manifest(tmp_path: Path) -> None:
    folder = public_environment(tmp_path)
    write_files(folder, {"server/other.py": "from .app import app as second\n"})
    named = EnvironmentPackage.from_app(folder, "server.other:second")
    assert (named.name, named.manifest.app, named.manifest.port) == ("tally_env", "server.other:second", 8000)
    (folder / "openenv.yaml").unlink()
    bare = EnvironmentPackage.from_app(folder, "server.other:second")
    assert (bare.name, bare.module) == ("tally_env", "tally_env")
    assert bare.app() is named.app()
    with pytest.raises(ConfigurationError, match=r"Expected an application as module:attribute, .* got 'server.app'"):
        EnvironmentPackage.from_app(folder, "server.app")
    with pytest.raises(ConfigurationError, match=r"There is no folder .*nowhere"):
        EnvironmentPackage.from_app(tmp_path / "nowhere", "server.app:app")


def test_a_client_that_extends_none_of_ours_is_found_without_the_server(tmp_path: Path) -> None:
    folder = diary_env(tmp_path)
    write_files(folder, {"server/app.py": "import no_such_engine\n"})
    assert described(folder).client_class().__name__ == "DiaryEnv"
    assert described(folder).action_class().__name__ == "DiaryAction"


CLIENT = "class {}:\n    def __init__(self, base_url): ...\n    def reset(self): ...\n    def step(self, action): ...\n"


@pytest.mark.parametrize(
    ("client", "init", "found"),
    [
        ("_Wire DiaryClient", "", "DiaryClient"),
        ("AsyncDiaryEnv DiaryEnv", "", "DiaryEnv"),
        ("", "DiaryClient", "DiaryClient"),
    ],
)
def test_of_several_such_clients_the_one_with_the_usual_name_is_meant(
    tmp_path: Path, client: str, init: str, found: str
) -> None:
    folder = diary_env(tmp_path)
    (folder / "client.py").unlink()
    files = {"client.py": client, "__init__.py": init}
    written = {name: "\n".join(map(CLIENT.format, classes.split())) for name, classes in files.items()}
    write_files(folder, {**written, "server/app.py": "import no_such_engine\n"})
    assert described(folder).client_class().__name__ == found


def test_of_several_such_clients_the_manifest_names_one(tmp_path: Path) -> None:
    folder = write_files(diary_env(tmp_path), {"client.py": "\n".join(map(CLIENT.format, ("Blue", "Green")))})
    with pytest.raises(ConfigurationError, match="`client` is needed, as each of Blue, Green could be meant"):
        described(folder).client_class()
    assert described(with_manifest_keys(folder, client="client:Green")).client_class().__name__ == "Green"


@pytest.mark.parametrize(
    "client",
    [
        "class Sender:\n    def __init__(self, base_url): ...\n    def reset(self): ...\n",  # has no step
        "class Game:\n    def __init__(self, seed): ...\n    def reset(self): ...\n    def step(self, action): ...\n",
        "from http.client import HTTPConnection\n",
    ],
)
def test_what_is_not_used_like_a_client_is_none(tmp_path: Path, client: str) -> None:
    folder = write_files(public_environment(tmp_path), {"client.py": client, "__init__.py": ""})
    with pytest.raises(ConfigurationError, match="does not say"):
        described(folder).client_class()


def test_an_observation_of_tools_is_not_meant_where_there_is_another(tmp_path: Path) -> None:
    folder = public_environment(tmp_path)
    more = """
        from openenv.core.env_server.mcp_types import CallToolObservation, ListToolsObservation

        class TallyTools(ListToolsObservation):
            error: str | None = None

        class TallyCall(CallToolObservation):
            error: str | None = None
        """
    models = (folder / "models.py").read_text()
    write_files(folder, {"models.py": more})
    (folder / "models.py").write_text((folder / "models.py").read_text() + models)
    assert described(folder).observation_class().__name__ == "TallyObservation"
