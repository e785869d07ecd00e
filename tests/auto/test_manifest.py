"""Reading ``openenv.yaml``: what is accepted, and what each fault is told as."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.environment_folders import write_files
from tests.support.manifests import OTHER_SHAPES

from openenv.auto import Manifest, load_manifest
from openenv.auto.package import EnvironmentPackage
from openenv.core.exceptions import ConfigurationError


def written(folder: Path, text: str) -> Path:
    (folder / "openenv.yaml").write_text(text, encoding="utf-8")
    return folder


def fault(folder: Path) -> str:
    with pytest.raises(ConfigurationError) as error:
        load_manifest(folder)
    return str(error.value)


def test_the_least_manifest(tmp_path: Path) -> None:
    manifest = load_manifest(written(tmp_path, "name: my_env\n"))
    assert (manifest.name, manifest.app, manifest.port, manifest.spec_version) == ("my_env", "server.app:app", 8000, 1)
    assert manifest.client is manifest.environment is manifest.player is manifest.action is None


def test_public_and_further_keys_are_kept(tmp_path: Path) -> None:
    text = "name: my_env\nversion: 1.0\naction: MyAction\nvariables: {DEBUG: '1'}\ndefault_image: my-env:latest\n"
    manifest = load_manifest(written(tmp_path, text))
    assert manifest.version == "1.0"
    assert manifest.action == "MyAction"
    assert manifest.model_dump()["variables"] == {"DEBUG": "1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected keys and values, such as `name: my_env`, but got nothing"),
        ("- name", "but got list"),
        ("my_env", "but got str"),
        ("version: '1'", "`name` is missing; it must be the environment's name"),
        ("name: 5", "`name` is 5; it must be the environment's name: letters, digits, _ and -"),
        ("name: my env", "`name` is 'my env'"),
        ("name: ''", "`name` is ''"),
        ("name: x\nport: 70000", "`port` is 70000; it must be the server's port in a container, 1 to 65535"),
        ("name: x\nport: many", "`port` is 'many'"),
        ("name: x\napp: server.app", "`app` is 'server.app'; it must be the application, as in server.app:app"),
        ("name: x\napp: ../evil:app", "`app` is '../evil:app'"),
        ("name: x\nclient: MyEnv", "`client` is 'MyEnv'; it must be the client's class, as in client:MyEnv"),
        ("name: x\naction: a:b:c", "`action` is 'a:b:c'"),
        ("name: x\nspec_version: 2", "`spec_version` is 2; it must be the manifest's format: 1"),
        ("name: x\nversion: [1]", "`version` is [1]"),
        ("name: [", "is not valid YAML; mend this:"),
        ("a: 1\n b: 2", "line 2"),
        ("name: x\ntrue: 1", "a key must be a name, but got True; put it in quotes"),
        ("name: !!python/object/apply:os.system ['true']", "is not valid YAML"),
    ],
)
def test_each_fault_names_file_key_and_remedy(tmp_path: Path, text: str, expected: str) -> None:
    message = fault(written(tmp_path, text))
    assert expected in message
    assert str(tmp_path / "openenv.yaml") in message


@pytest.mark.parametrize(("key", "text"), OTHER_SHAPES)
def test_what_other_tools_keep_under_a_key_is_ignored(tmp_path: Path, key: str, text: str) -> None:
    folder = written(tmp_path, f"name: x\nport: 7000\n{text}\n")
    manifest = load_manifest(folder)
    assert getattr(manifest, key) == Manifest.model_fields[key].default
    assert manifest.port == 7000


@pytest.mark.parametrize("app", ["server.app:app", "my_env.server.app:app", "envs.my_env.server.app:app"])
def test_the_application_may_be_named_from_above_the_folder(tmp_path: Path, app: str) -> None:
    folder = write_files(tmp_path / "my_env", {"openenv.yaml": f"name: my\napp: {app}\n", "__init__.py": ""})
    assert EnvironmentPackage.from_folder(folder).manifest.app == "server.app:app"


def test_every_fault_is_told(tmp_path: Path) -> None:
    lines = fault(written(tmp_path, "port: 0\napp: x")).splitlines()
    assert sorted(line.split("`")[1] for line in lines) == ["app", "name", "port"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "There is no file" in fault(tmp_path)
    (tmp_path / "openenv.yaml").write_bytes(b"name: \xff\xfe")
    assert "is not UTF-8 text" in fault(tmp_path)
    (tmp_path / "openenv.yaml").unlink()
    (tmp_path / "openenv.yaml").mkdir()
    assert "can't be read, since it is no regular file" in fault(tmp_path)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_keys = st.sampled_from(sorted(Manifest.model_fields)) | st.text(max_size=5) | st.integers()


@given(content=st.dictionaries(_keys, _values, max_size=6) | _values)
def test_any_content_gives_a_manifest_or_the_typed_error(
    content: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = written(tmp_path_factory.mktemp("any"), yaml.safe_dump(content, allow_unicode=True))
    outcome: Manifest | str
    try:
        outcome = load_manifest(folder)
    except ConfigurationError as error:
        outcome = str(error)
    assert outcome.name == content["name"] if isinstance(outcome, Manifest) else "openenv.yaml" in outcome
