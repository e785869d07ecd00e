"""Importing an environment from its own folder."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold, write_files

from openenv.auto.importing import import_file, import_from_folder, module_path
from openenv.core.exceptions import ConfigurationError


def test_a_folder_is_the_package_of_its_name(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "some_env", {"__init__.py": ""})
    assert module_path(folder) == ("some_env", folder)


def test_a_folder_in_a_package_is_a_subpackage(tmp_path: Path) -> None:
    top = write_files(
        tmp_path / "games_env", {"__init__.py": "", "cards/__init__.py": "", "cards/poker/__init__.py": ""}
    )
    assert module_path(top / "cards" / "poker") == ("games_env.cards.poker", top)


def test_pyproject_names_the_package_whatever_the_folder_is_called(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "some_env").rename(tmp_path / "a checkout of it")
    assert module_path(folder) == ("some_env", folder)
    module = import_from_folder("some_env.server.app", folder)
    assert module.__file__ == str(folder / "server" / "app.py")


def test_hyphens_become_underscores(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "some-env", {"__init__.py": "", "pyproject.toml": "[project]\nname = 'x'"})
    assert module_path(folder) == ("some_env", folder)


def test_impossible_names_and_broken_pyprojects_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'2048 env' can't be a Python package's name; rename the folder"):
        module_path(write_files(tmp_path / "2048 env", {"__init__.py": ""}))
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml: is not valid TOML"):
        module_path(write_files(tmp_path / "some_env", {"__init__.py": "", "pyproject.toml": "[project"}))
    for text, named in (("tool = 1", "tool"), ("[tool]\nsetuptools = 1", "setuptools")):
        folder = write_files(tmp_path / "other_env", {"__init__.py": "", "pyproject.toml": text})
        with pytest.raises(ConfigurationError, match=rf"expected {named} of .* to be a table, got 1"):
            module_path(folder)


def test_the_folder_wins_over_an_installed_package_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "installed" / "twin_env", {"__init__.py": "WHERE = 'installed'"})
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    folder = write_files(tmp_path / "work" / "twin_env", {"__init__.py": "WHERE = 'folder'", "client.py": ""})
    assert import_from_folder("twin_env", folder).WHERE == "folder"
    assert import_from_folder("twin_env.client", folder).__file__ == str(folder / "client.py")


def test_two_folders_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    first = write_files(tmp_path / "a" / "twin_env", {"__init__.py": ""})
    second = write_files(tmp_path / "b" / "twin_env", {"__init__.py": ""})
    import_from_folder("twin_env", first)
    with pytest.raises(ConfigurationError, match="has loaded another twin_env from"):
        import_from_folder("twin_env", second)
    assert import_from_folder("twin_env", first) is sys.modules["twin_env"]


def test_the_folder_next_to_it_does_not_shadow_other_modules(tmp_path: Path) -> None:
    write_files(tmp_path, {"colorsys.py": "raise SystemExit('shadowed')"})
    folder = write_files(tmp_path / "some_env", {"__init__.py": "import colorsys"})
    sys.modules.pop("colorsys", None)
    import_from_folder("some_env", folder)


def test_processes_that_the_environment_starts_find_it_too(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "some_env", {"__init__.py": "", "work.py": "def job(number): return number + 1"})
    program = write_files(
        tmp_path / "elsewhere",
        {
            "program.py": """
                import multiprocessing, sys
                from pathlib import Path
                from openenv.auto.importing import import_from_folder

                if __name__ == "__main__":
                    work = import_from_folder("some_env.work", Path(sys.argv[1]))
                    with multiprocessing.get_context("spawn").Pool(1) as pool:
                        print(pool.apply(work.job, (41,)))
                """
        },
    )
    finished = subprocess.run(
        [sys.executable, str(program / "program.py"), str(folder)], capture_output=True, text=True, timeout=60
    )
    assert finished.stdout.strip() == "42", finished.stderr


def test_a_missing_dependency_is_named_with_the_command_that_the_folder_lists(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "some_env", {"__init__.py": "", "client.py": "import no_such_library.part"})
    with pytest.raises(ConfigurationError, match=r"'no_such_library', which is not installed; install the package"):
        import_from_folder("some_env.client", folder)
    # Without OpenEnv itself, which pip would take from the public package.
    write_files(folder, {"requirements.txt": "openenv[core]>=0.2\nno-such-library>=2\nfastmcp\n"})
    with pytest.raises(ConfigurationError, match=r": pip install 'no-such-library>=2' fastmcp \(or have"):
        import_from_folder("some_env.client", folder)


@pytest.mark.parametrize("requirements", ["", "openenv[core]>=0.2\nfastmcp\n"])
@pytest.mark.parametrize("module", ["openenv.harbor", "openenv.core.harness.collect"])
def test_a_module_that_openenv_lacks_is_none_to_install(tmp_path: Path, module: str, requirements: str) -> None:
    """What pip would bring is the public package, into the folder of this one."""
    files = {"__init__.py": "", "client.py": f"import {module}", "requirements.txt": requirements}
    folder = write_files(tmp_path / "some_env", files)
    alone = write_files(tmp_path / "alone", {"program.py": f"import {module}"}) / "program.py"
    for load in (partial(import_from_folder, "some_env.client", folder), partial(import_file, alone)):
        with pytest.raises(ConfigurationError) as raised:
            load()
        assert f"the module {module!r}, which this OpenEnv does not have" in str(raised.value)
        assert "docs/drop-in.md" in str(raised.value)
        assert "pip" not in str(raised.value)


def test_the_authors_own_mistakes_stay_as_they_are(tmp_path: Path) -> None:
    folder = write_files(
        tmp_path / "some_env", {"__init__.py": "", "a.py": "from some_env import b_module", "c.py": "1/0"}
    )
    with pytest.raises(ImportError, match="b_module"):
        import_from_folder("some_env.a", folder)
    with pytest.raises(ModuleNotFoundError, match=r"some_env\.nothing"):
        import_from_folder("some_env.nothing", folder)
    with pytest.raises(ZeroDivisionError):
        import_from_folder("some_env.c", folder)


@pytest.mark.parametrize(
    "files",
    [
        {"__init__.py": "", "a.py": "import sys\nsys.exit(3)"},
        {"__init__.py": "raise SystemExit\n", "a.py": ""},
        {"__init__.py": "", "a.py": "from some_env import b", "b.py": "import sys\n\ndef main(): exit()\n\nmain()"},
    ],
)
def test_a_module_that_ends_the_process_is_an_error_with_its_line(tmp_path: Path, files: dict[str, str]) -> None:
    folder = write_files(tmp_path / "some_env", files)
    with pytest.raises(
        ConfigurationError, match=r"some_env/\w+\.py, line \d: ends the process when some_env\.a is .*__main__"
    ):
        import_from_folder("some_env.a", folder)
    for module in ("some_env", "some_env.a", "some_env.b"):
        sys.modules.pop(module, None)


def test_so_is_a_file_that_does(tmp_path: Path) -> None:
    file = write_files(tmp_path, {"guess_ends.py": "import argparse\nargparse.ArgumentParser().parse_args(['--no'])\n"})
    with pytest.raises(
        ConfigurationError, match=r"guess_ends\.py, line 2: ends the process when guess_ends\.py is imported"
    ):
        import_file(file / "guess_ends.py")
    assert "guess_ends" not in sys.modules


def test_a_package_that_failed_can_be_mended_and_imported(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "some_env", {"__init__.py": "1/0"})
    with pytest.raises(ZeroDivisionError):
        import_from_folder("some_env", folder)
    write_files(folder, {"__init__.py": "VALUE = 12345  # another length, so that no stale bytecode is used"})
    assert import_from_folder("some_env", folder).VALUE == 12345


def test_a_folder_without_init_is_told(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "some_env", {"client.py": ""})
    with pytest.raises(ConfigurationError, match=r"has no __init__\.py"):
        import_from_folder("some_env.client", folder)
