import subprocess
import sys

import pytest

from textarena_env.server.library import game_class, observation_wrapper, registry

FRESH = """
import socket, sys
def refuse(*where):
    raise AssertionError(f"a connection to {where}")
socket.socket.connect = refuse
import textarena_env.server.library as library
import nltk, random, numpy
for spec in {spec.entry_point for spec in library.registry().values()}:
    try:
        library.game_class(spec)
    except (ImportError, SyntaxError):
        pass
assert nltk.__file__, "another module has the stand-in"
assert nltk.download.__module__.startswith("nltk"), "another module has the stand-in"
games = [module for name, module in sys.modules.items() if name.startswith("textarena.envs.")]
assert len(games) > 100
shared = [name for module in games for name, value in vars(module).items() if value in (random, numpy, nltk)]
print(shared)
"""


def test_nothing_is_downloaded_and_no_game_has_the_modules_that_all_share() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, encoding="utf-8", timeout=120, env={}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


def test_the_registry_has_every_game_and_variant() -> None:
    plain = [env_id for env_id in registry() if not env_id.endswith(("-raw", "-train"))]
    assert len(plain) == 238
    assert {"Wordle-v0", "Sudoku-v0", "TicTacToe-v0", "Minesweeper-v0", "2048-v0"} < set(plain)


@pytest.mark.level("socket")
def test_a_game_s_class_is_imported() -> None:
    assert game_class("textarena.envs.Wordle.env:WordleEnv").__name__ == "WordleEnv"
    with pytest.raises(ImportError):
        game_class("textarena.envs.NoSuchGame.env:Env")


@pytest.mark.level("socket")
def test_a_dictionary_is_made_once_and_knows_the_words() -> None:
    games = [game_class("textarena.envs.Wordle.env:WordleEnv")() for _ in range(2)]
    assert games[0].dictionary is games[1].dictionary
    assert games[0].dictionary.is_english_word("mouse")
    assert not games[0].dictionary.is_english_word("zzzzz")
    assert games[0].dictionary.get_all_words() is games[0].dictionary.get_all_words()


def test_wrappers_of_observations_are_recognised() -> None:
    wrappers = registry()["Wordle-v0"].default_wrappers
    assert [issubclass(wrapper, observation_wrapper()) for wrapper in wrappers] == [True, False]
