"""Finding environments among installed distributions and folders."""

import logging
from pathlib import Path

import pytest
from tests.support.environment_folders import public_environment, scaffold, write_files

from openenv import find_environment, list_environments
from openenv.auto.discovery import list_folders, short_name
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError


class SitePackages:
    """A folder of installed packages, put on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, distribution: str, entry_points: dict[str, str] | None = None, requires: str = "") -> None:
        """Write what an installer writes for a distribution."""
        lines = [f"{name} = {module}" for name, module in (entry_points or {}).items()]
        write_files(
            self.folder / f"{distribution.replace('-', '_')}-1.0.dist-info",
            {
                "METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
                + (f"Requires-Dist: {requires}\n" if requires else ""),
                **({"entry_points.txt": "\n".join(["[openenv.environments]", *lines, ""])} if lines else {}),
            },
        )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SitePackages:
    """An empty folder of installed packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return SitePackages(folder)


def listed() -> set[tuple[str, str]]:
    return {(package.name, package.module) for package in list_environments()}


@pytest.mark.level("files")
def test_the_reference_environments_are_found_by_every_form_of_their_names() -> None:
    folders = {find_environment(name).folder for name in ("wordle", "wordle-env", "wordle_env", "Wordle")}
    assert [folder.name for folder in folders] == ["wordle_env"]
    assert find_environment("catch").module == "catch_env"


def test_registered_environments_are_listed_without_importing_them(site: SitePackages) -> None:
    write_files(scaffold(site.folder, "zebra_env"), {"__init__.py": "raise SystemExit('imported')"})
    site.install("openenv-zebra_env", {"zebra": "zebra_env"})
    assert ("zebra", "zebra_env") in listed()
    assert [package.name for package in list_environments()] == sorted(package.name for package in list_environments())


def test_a_subpackage_can_be_registered(site: SitePackages) -> None:
    top = write_files(site.folder / "games_env", {"__init__.py": "raise SystemExit('imported')"})
    scaffold(top, "chess")
    site.install("openenv-games", {"chess": "games_env.chess"})
    package = find_environment("chess")
    assert (package.module, package.folder) == ("games_env.chess", top / "chess")


def test_public_packages_register_nothing_and_are_found_all_the_same(site: SitePackages) -> None:
    public_environment(site.folder, "tally_env")
    site.install("openenv-tally-env")
    site.install("openenv-without-a-manifest")
    for name in ("tally", "tally-env", "tally_env"):
        assert find_environment(name).folder == site.folder / "tally_env"
    assert "without_a_manifest" not in {package.module for package in list_environments()}


@pytest.mark.parametrize("distribution", ["openenv-tally-env", "openenv-tally", "OpenEnv_Tally_Env"])
def test_public_packages_without_a_manifest_in_their_wheel_are_found(site: SitePackages, distribution: str) -> None:
    folder = public_environment(site.folder, "tally_env")
    (folder / "openenv.yaml").unlink()
    site.install(distribution)
    write_files(site.folder / "tally", {"__init__.py": "", "client.py": "raise SystemExit('a library')\n"})
    package = find_environment("tally")
    assert (package.folder, package.manifest.app) == (folder, "server.app:app")
    assert (package.client_class().__name__, package.action_class().__name__) == ("TallyGameEnv", "AddAction")


def test_a_public_package_with_a_name_of_its_own_is_found_by_what_it_installed(site: SitePackages) -> None:
    folder = public_environment(site.folder, "counting_game")
    (folder / "openenv.yaml").unlink()
    site.install("openenv-tally")
    write_files(site.folder / "openenv_tally-1.0.dist-info", {"top_level.txt": "no-module\ncounting_game\n"})
    assert find_environment("counting_game").folder == folder


@pytest.mark.parametrize("distribution", ["tally-env", "tally_env", "Tally.Env"])
def test_public_packages_without_the_prefix_are_found_by_what_they_require(
    site: SitePackages, distribution: str
) -> None:
    folder = public_environment(site.folder, "tally_env")
    (folder / "openenv.yaml").unlink()
    site.install(distribution)
    with pytest.raises(EnvironmentNotFoundError):
        find_environment("tally")
    site.install(distribution, requires="openenv-core[core]>=0.2.1")
    assert find_environment("tally").folder == folder
    assert "tally_env" in {package.module for package in list_environments()}


@pytest.mark.parametrize("name", ["acme.tally", "Acme.Tally-Env", "acme-tally_env", "acme_tally"])
def test_names_with_dots_are_those_with_other_separators(site: SitePackages, name: str) -> None:
    folder = public_environment(site.folder, "acme_tally_env")
    site.install("Acme.Tally-Env", requires="openenv")
    assert find_environment(name).folder == folder


@pytest.mark.parametrize(("distribution", "parent"), [("acme.tally_env", "acme"), ("openenv.tally", "")])
def test_a_distribution_with_dots_may_have_a_package_within_others(
    site: SitePackages, distribution: str, parent: str
) -> None:
    folder = public_environment(site.folder / parent, "tally_env")
    site.install(distribution, requires="openenv-core")
    for name in (distribution, distribution.upper(), distribution.replace(".", "-")):
        assert find_environment(name).folder == folder
    assert find_environment(distribution).client_class().__name__ == "TallyGameEnv"


def test_an_environment_may_register_a_name_with_dots(site: SitePackages) -> None:
    scaffold(site.folder, "zebra_env")
    site.install("acme.zebra", {"acme.zebra": "zebra_env"})
    for name in ("acme.zebra", "acme-zebra", "Acme_Zebra", "zebra"):
        assert find_environment(name).module == "zebra_env"


def test_a_registered_package_is_not_listed_twice(site: SitePackages) -> None:
    scaffold(site.folder, "zebra_env")
    site.install("openenv-zebra-env", {"zebra": "zebra_env"})
    site.install("a-copy-of-it", {"zebra": "zebra_env"})
    assert [name for name, module in listed() if module == "zebra_env"] == ["zebra"]
    assert find_environment("zebra").module == "zebra_env"


def test_two_packages_with_one_name_must_be_told_apart(site: SitePackages) -> None:
    for distribution, module in (("one", "one_env"), ("two", "two_env")):
        scaffold(site.folder, module)
        site.install(distribution, {"zebra": module})
    with pytest.raises(ConfigurationError, match="'zebra' is registered by one_env and two_env; uninstall one"):
        find_environment("zebra")


def test_a_broken_package_does_not_hide_the_others(site: SitePackages, caplog: pytest.LogCaptureFixture) -> None:
    write_files(scaffold(site.folder, "broken_env"), {"openenv.yaml": "port: -1"})
    scaffold(site.folder, "zebra_env")
    site.install("many", {"broken": "broken_env", "zebra": "zebra_env", "stale": "gone_env"})
    with caplog.at_level(logging.WARNING, "openenv"):
        names = {name for name, _ in listed()}
    assert "zebra" in names
    assert not names & {"broken", "stale"}
    assert "'broken'" in caplog.text
    assert "`name` is missing" in caplog.text
    with pytest.raises(ConfigurationError, match="`port` is -1"):
        find_environment("broken")
    with pytest.raises(ConfigurationError, match="'stale' is registered as gone_env, which can't be found; reinstall"):
        find_environment("stale")


def test_an_unknown_name_is_told_with_the_closest_ones(site: SitePackages) -> None:
    scaffold(site.folder, "zebra_env")
    site.install("openenv-zebra", {"zebra": "zebra_env"})
    with pytest.raises(EnvironmentNotFoundError) as error:
        find_environment("zebar")
    message = str(error.value)
    assert "No environment is called 'zebar'. Did you mean zebra?" in message
    assert "pip install" in message


def test_a_folder_with_a_server_but_no_manifest_is_told_what_to_write(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "my_env", {"server/app.py": "app = None"})
    with pytest.raises(
        EnvironmentNotFoundError, match=r"holds no openenv.yaml, only a server: .*`app: server.app:app`"
    ):
        find_environment(folder)


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    with pytest.raises(EnvironmentNotFoundError, match=r"^No environment is called 'q{30}'\. Installed are: "):
        find_environment("q" * 30)


def test_a_folder_in_the_working_directory_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = scaffold(tmp_path, "wordle_env")
    monkeypatch.chdir(tmp_path)
    assert find_environment("wordle_env").folder == folder
    assert find_environment("wordle").folder != folder
    monkeypatch.chdir(folder)
    assert find_environment(".").module == "wordle_env"
    assert find_environment("./").name == "wordle_env"


def test_a_link_to_a_folder_is_that_folder(tmp_path: Path) -> None:
    folder = scaffold(tmp_path / "real", "some_env")
    (tmp_path / "link").symlink_to(folder)
    assert find_environment(tmp_path / "link").module == "some_env"


def test_home_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    scaffold(tmp_path, "some_env")
    assert find_environment("~/some_env").folder == tmp_path / "some_env"


@pytest.mark.parametrize("target", ["./nothing", "nothing/here", Path("nothing"), "../nothing_env"])
def test_a_path_is_never_taken_for_a_name(target: str | Path) -> None:
    with pytest.raises(EnvironmentNotFoundError, match=r"There is no folder .*nothing"):
        find_environment(target)


def test_short_names_are_those_of_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = scaffold(tmp_path, "my_env")
    elsewhere = folder.rename(tmp_path / "checkout")
    (tmp_path / "guess.py").write_text("")
    monkeypatch.chdir(elsewhere)
    for target in (".", "../checkout", elsewhere, f"{elsewhere}/server/.."):
        assert short_name(target) == "my_env"
    assert [short_name(name) for name in ("wordle-env", "Wordle", "no_such_env")] == ["wordle", "wordle", "no_such_env"]
    assert short_name("..") == tmp_path.name, "there is no environment"
    assert short_name("../guess.py") == "guess"


def test_a_folder_without_a_manifest_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotFoundError, match=r"holds no openenv\.yaml.*openenv init NAME"):
        find_environment(tmp_path)


def test_the_environments_below_a_folder_are_those_that_no_link_leads_to(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", scaffold(tmp_path, "elsewhere_env")
    for folder in (root, root / "games", root / ".hidden"):
        folder.mkdir()
    scaffold(root, "near_env")
    scaffold(root / "games", "far_env")
    scaffold(root / ".hidden", "hidden_env")
    (root / "linked_env").symlink_to(elsewhere)
    (root / "games" / "back").symlink_to(root)
    assert [package.name for package in list_folders(root)] == ["far_env", "near_env"]
