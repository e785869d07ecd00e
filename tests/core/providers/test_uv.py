"""Projects served in environments of their own: folders, repositories, and applications without a manifest."""

import os
import tempfile
from pathlib import Path

import pytest
from tests.support.environment_folders import public_environment, scaffold, write_files
from tests.support.servers import eventually
from tests.support.services.git_repositories import commit_all
from tests.support.wheels import make_wheel

from openenv import GenericEnvClient
from openenv.core.containers.runtime import LocalProcessProvider, RuntimeProvider, UVProvider
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerNotReadyError


@pytest.fixture(scope="module")
def kept_environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def one_environment_for_all(offline: Path, kept_environments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build what these tests need once: their projects ask for the same."""
    make_wheel(offline, "dice-lore", "6.0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept_environments))


@pytest.fixture
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process puts temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def needing_dice_lore(folder: Path) -> Path:
    """Make a folder's environment tell the version of a package that is not installed where the tests run."""
    write_files(folder, {"pyproject.toml": "[project]\nname = 'x'\nversion = '1'\ndependencies = ['dice-lore']\n"})
    environment = next(folder.glob("server/*_environment.py"))
    told = environment.read_text().replace('reset_text="', "").replace("environment ready!", "{dice_lore.VERSION}!")
    told = told.replace('echoed_message="', 'echoed_message=f"')
    environment.write_text(f"import dice_lore\n{told}")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return needing_dice_lore(scaffold(tmp_path, "lore_env"))


def told(provider: RuntimeProvider) -> str:
    provider.wait_for_ready(100)
    with GenericEnvClient(provider.base_url).sync() as client:
        text: str = client.reset().observation["echoed_message"]
        return text


def test_a_folder_s_server_has_what_the_folder_asks_for(folder: Path) -> None:
    with UVProvider(project_path=folder) as provider:
        assert provider.base_url.startswith("http://127.0.0.1:")
        assert provider.token is None
        assert told(provider) == "Lore Env 6.0!"
    with LocalProcessProvider(folder, venv=True) as local:
        assert told(local) == "Lore Env 6.0!"
    with (
        LocalProcessProvider(folder) as bare,
        pytest.raises(ProviderError, match="'dice_lore', which is not installed"),
    ):
        bare.wait_for_ready(100)


def test_a_repository_is_fetched_and_removed_with_its_server(folder: Path, temporary_files: Path) -> None:
    commit_all(folder)
    provider = UVProvider(project_path=f"git+{folder.as_uri()}@main")
    for _ in range(2):
        with provider:
            assert told(provider) == "Lore Env 6.0!"
            assert [path.name for path in temporary_files.glob("openenv-clone-*/*")] == ["lore_env"]
        assert not list(temporary_files.iterdir())


def test_a_repository_that_can_not_be_served_is_removed_too(tmp_path: Path, temporary_files: Path) -> None:
    nothing = write_files(tmp_path / "nothing_env", {"README.md": "Nothing."})
    commit_all(nothing)
    provider = UVProvider(project_path=f"git+{nothing.as_uri()}")
    with pytest.raises(ConfigurationError, match="neither a pyproject"):
        provider.start()
    assert not list(temporary_files.iterdir())
    with pytest.raises(ProviderError, match="could not fetch"):
        UVProvider(project_path=f"git+{(tmp_path / 'nowhere').as_uri()}").start()
    assert not list(temporary_files.iterdir())


def test_an_application_needs_no_manifest(tmp_path: Path) -> None:
    folder = public_environment(tmp_path)
    write_files(folder, {"pyproject.toml": "[project]\nname = 'x'\nversion = '1'\ndependencies = ['dice-lore']\n"})
    (folder / "openenv.yaml").unlink()
    with UVProvider(project_path=folder) as provider, pytest.raises(ProviderError, match=r"holds no openenv\.yaml"):
        provider.wait_for_ready(100)
    with UVProvider(project_path=folder, app="server.app:app", context_timeout_s=100) as provider:
        provider.wait_for_ready()
        with GenericEnvClient(provider.base_url).sync() as client:
            assert not client.reset().done


def test_on_other_addresses_the_provider_brings_the_token(folder: Path) -> None:
    provider = UVProvider(
        project_path=folder, host="0.0.0.0", env_vars={"OPENENV_TOKEN": "s3cret"}, context_timeout_s=100
    )
    with GenericEnvClient(provider=provider).sync() as client:
        assert client.reset().observation["echoed_message"] == "Lore Env 6.0!"
        assert provider.base_url.startswith("http://127.0.0.1:")
        assert provider.token == "s3cret"
    with UVProvider(project_path=folder, host="0.0.0.0") as made:
        assert len(made.token or "") >= 32


def test_how_many_workers_there_are_is_the_server_s_to_know(folder: Path) -> None:
    provider = UVProvider(project_path=folder)
    provider.start(workers=0)
    with pytest.raises(ProviderError, match=r"exited with status 2(?s:.*)Invalid value for '--workers'"):
        provider.wait_for_ready(100)
    provider.stop()


def test_a_changed_file_starts_the_server_anew(folder: Path) -> None:
    with UVProvider(project_path=folder, reload=True) as provider:
        assert told(provider) == "Lore Env 6.0!"
        environment = next(folder.glob("server/*_environment.py"))
        environment.write_text(environment.read_text().replace("Lore Env {", "Changed {"))
        eventually(lambda: _is_changed(provider, environment), "the change is served")


def _is_changed(provider: RuntimeProvider, environment: Path) -> bool:
    answer = _told_if_up(provider)
    if answer == "Lore Env 6.0!":
        environment.touch()  # the server answers before its files are watched, so the first change may be missed
    return answer == "Changed 6.0!"


def _told_if_up(provider: RuntimeProvider) -> str | None:
    try:
        return told(provider)
    except (ConnectionError, RuntimeError):
        return None


def test_it_waits_as_long_as_it_was_made_to(folder: Path) -> None:
    with (
        UVProvider(project_path=folder, context_timeout_s=0.01) as provider,
        pytest.raises(ServerNotReadyError, match=r"within 0\.01 s"),
    ):
        provider.wait_for_ready()


def test_without_uv_there_is_no_such_provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", os.fspath(tmp_path / "python"))
    with pytest.raises(RuntimeError, match="UVProvider needs uv, which is not installed: pip install uv"):
        UVProvider(project_path=tmp_path)


def test_start_refuses_what_it_does_not_know(folder: Path) -> None:
    with pytest.raises(ProviderError, match=r"UVProvider\.start takes port and env_vars, but got replicas"):
        UVProvider(project_path=folder).start(replicas=2)
