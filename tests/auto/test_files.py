"""Environments in a file of their own, found by its name."""

from pathlib import Path

import pytest
from tests.support.environment_folders import write_files

import openenv
from openenv.auto.discovery import find_environment
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, ProviderError

GUESS = '''
from openenv import Action, Environment, Observation, State

class GuessAction(Action):
    word: str

class GuessObservation(Observation):
    text: str = ""

class Game(Environment[GuessAction, GuessObservation, State]):
    """Guess a word."""

    def reset(self, seed=None, episode_id=None):
        self._state = State()
        return GuessObservation(text="guess")

    def step(self, action):
        return GuessObservation(text=action.word, reward=1.0, done=True)

    @property
    def state(self):
        return self._state

class GuessEnvironment(Game):
    """Guess a word of this file."""
'''
OTHER = "\n\nclass OtherEnvironment(Game):\n    pass\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An environment in a file."""
    file = tmp_path / "guess.py"
    file.write_text(GUESS)
    return file


@pytest.mark.parametrize("name", ["guess.py", "./guess.py", "guess.py:GuessEnvironment"])
def test_it_is_played_by_the_file_s_name(file: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    with openenv.make(name).sync() as client:
        assert client.reset().observation.text == "guess"
        action = find_environment(name).action_class()(word="x")
        assert client.step(action).reward == 1.0


def test_finding_it_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('imported')")
    assert find_environment(tmp_path / "broken.py").target == str(tmp_path / "broken.py")


def test_of_several_the_name_decides(file: Path) -> None:
    file.write_text(GUESS + OTHER)
    with pytest.raises(ConfigurationError, match=r"several environments: .*guess.py:Guess\w+ and .*guess.py:OtherEnv"):
        find_environment(file).environment_class()
    assert find_environment(f"{file}:OtherEnvironment").environment_class().__name__ == "OtherEnvironment"
    with pytest.raises(ConfigurationError, match=r"has no Missing; its environments are: .*OtherEnvironment"):
        find_environment(f"{file}:Missing").environment_class()


def test_without_an_environment(tmp_path: Path) -> None:
    (tmp_path / "loose.py").write_text("class Game:\n    pass\n")
    with pytest.raises(ConfigurationError, match=r"loose.py: expected a class that extends Environment"):
        find_environment(tmp_path / "loose.py").environment_class()


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("missing.py", EnvironmentNotFoundError, "There is no file .*missing.py"),
        ("json.py", ConfigurationError, "json.py: 'json' can't be the name of a module; rename the file"),
        ("2guess.py", ConfigurationError, "'2guess' can't be the name"),
    ],
)
def test_names_that_can_t_be(tmp_path: Path, name: str, kind: type[Exception], sentence: str) -> None:
    if name != "missing.py":
        (tmp_path / name).write_text(GUESS)
    with pytest.raises(kind, match=sentence):
        find_environment(tmp_path / name)


def test_what_it_imports_and_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "loose.py").write_text("import no_such_module_of_mine")
    with pytest.raises(ConfigurationError, match="imports 'no_such_module_of_mine', which is neither installed nor in"):
        find_environment(tmp_path / "loose.py").environment_class()


def test_another_module_of_its_name(file: Path, tmp_path: Path) -> None:
    find_environment(file).environment_class()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "guess.py").write_text(GUESS)
    with pytest.raises(ConfigurationError, match=r"A module guess is loaded already, from .*; rename"):
        find_environment(tmp_path / "other" / "guess.py").environment_class()


def test_a_program_that_plays_itself_starts_no_servers_without_end(file: Path) -> None:
    file.write_text(
        f"{GUESS}\nimport openenv\nwith openenv.make({str(file)!r}).sync() as client:\n    client.reset()\n"
    )
    with pytest.raises(ConfigurationError, match='Start the server under `if __name__ == "__main__":`'):
        openenv.make(file).sync().connect()


def test_an_application_in_it_is_served(file: Path) -> None:
    file.write_text(f"{GUESS}\nfrom openenv import create_app\napp = create_app(Game, env_name='mine')\n")
    assert find_environment(f"{file}:app").app().state.server.env_name == "mine"
    assert find_environment(file).app().state.server.env_name == "guess"


class TestFolderWithoutApplication:
    """A folder needs a manifest and a class."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A folder with a name and an environment."""
        return write_files(tmp_path / "guesses", {"openenv.yaml": "name: guesses\n", "guess.py": GUESS})

    def test_its_only_environment_is_served(self, folder: Path) -> None:
        write_files(folder, {"train.py": "raise RuntimeError('a script, which nobody asked for')\n"})
        with openenv.make(folder).sync() as client:
            assert client.reset().observation.text == "guess"

    def test_a_package_s_too(self, folder: Path) -> None:
        write_files(folder, {"__init__.py": "", "server/mine.py": "from guesses.guess import Game\n"})
        assert find_environment(folder).app().state.server.env_name == "guesses"

    def test_several(self, folder: Path) -> None:
        write_files(folder, {"server/other.py": GUESS})
        with pytest.raises(ConfigurationError, match=r"several environments: .*guess.py:Guess.* and .*other.py:Guess"):
            find_environment(folder).environment_class()

    def test_none(self, folder: Path) -> None:
        (folder / "guess.py").unlink()
        with pytest.raises(ConfigurationError, match="expected a class that extends Environment"):
            find_environment(folder).environment_class()

    def test_an_application_that_is_named_must_be_there(self, folder: Path) -> None:
        write_files(folder, {"openenv.yaml": "name: guesses\napp: server.app:app\n"})
        with pytest.raises(ConfigurationError, match=r"`app` names the module server.app, which is not there"):
            find_environment(folder).app()


def test_a_server_whose_file_is_broken_says_why(file: Path) -> None:
    file.write_text("import no_such_module_of_mine")
    with pytest.raises((ProviderError, ConfigurationError), match="no_such_module_of_mine"):
        openenv.make(file).sync().connect()
