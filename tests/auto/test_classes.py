"""How the classes of a package are found: by its manifest, or by looking at its modules."""

from pathlib import Path

import pytest
from tests.support.environment_folders import public_environment, scaffold, with_manifest_keys, write_files

from openenv.auto import EnvironmentPackage
from openenv.core.exceptions import ConfigurationError

described = EnvironmentPackage.from_folder

TWO_ACTIONS = """
from openenv.core.env_server.types import Action, Observation

class Left(Action):
    pass

class Right(Action):
    pass

class {observation}(Observation):
    pass
"""


def test_public_keys_name_classes_without_their_module(tmp_path: Path) -> None:
    folder = write_files(
        public_environment(tmp_path), {"models.py": TWO_ACTIONS.format(observation="TallyObservation")}
    )
    write_files(folder, {"__init__.py": "", "client.py": ""})
    package = described(with_manifest_keys(folder, action="Right", observation="TallyObservation"))
    assert package.action_class().__name__ == "Right"


def test_several_candidates_are_listed_unless_one_has_the_usual_name(tmp_path: Path) -> None:
    folder = write_files(public_environment(tmp_path), {"models.py": TWO_ACTIONS.format(observation="Seen")})
    write_files(folder, {"__init__.py": "", "client.py": ""})
    package = described(folder)
    assert package.observation_class().__name__ == "Seen"
    with pytest.raises(ConfigurationError, match=r"openenv\.yaml: `action` is needed, as each of Left, Right could be"):
        package.action_class()


def test_the_usual_name_decides_between_several(tmp_path: Path) -> None:
    text = TWO_ACTIONS.format(observation="Seen").replace("Right", "TallyAction")
    folder = write_files(public_environment(tmp_path), {"__init__.py": "", "client.py": "", "models.py": text})
    assert described(folder).action_class().__name__ == "TallyAction"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("client", "client:Nothing", "`client` names 'Nothing', which my_env.client lacks"),
        ("client", "nowhere:MyEnv", "`client` names the module nowhere, which is not there"),
        ("client", "models:MyAction", "`client` must name a subclass of EnvClient, but that is <class"),
        ("environment", "models:MyAction", "`environment` must name a subclass of Environment"),
        ("action", "Nothing", "`action` was looked for in models, client; name its location, as in module:Nothing"),
        ("action", "models:Field", "`action` must name a subclass of BaseModel, but that is <function Field"),
    ],
)
def test_wrong_keys_are_told_by_name(tmp_path: Path, key: str, value: str, expected: str) -> None:
    package = described(with_manifest_keys(scaffold(tmp_path, "my_env"), **{key: value}))
    with pytest.raises(ConfigurationError, match=r"openenv\.yaml") as error:
        getattr(package, f"{key}_class")()
    assert expected in str(error.value)
