"""The old names of the games that have packages of their own now."""

import subprocess
import sys


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter, in which nothing was imported under a name."""
    return subprocess.run([sys.executable, "-W", "default", "-c", program], capture_output=True, encoding="utf-8")


def test_old_names_are_the_new_modules_and_say_so() -> None:
    ended = run(
        "from openspiel_env.catch import CatchAction\n"
        "from openspiel_env.blackjack.server.blackjack_environment import BlackjackEnvironment\n"
        "import openspiel_env.game_2048.rules\n"
        "import blackjack_env.server.blackjack_environment as blackjack, catch_env, game_2048_env.rules\n"
        "assert CatchAction is catch_env.CatchAction\n"
        "assert BlackjackEnvironment is blackjack.BlackjackEnvironment\n"
        "assert openspiel_env.game_2048.rules is game_2048_env.rules\n"
    )
    assert ended.returncode == 0, ended.stderr
    first = ended.stderr.splitlines()[0]
    assert first == ("<string>:1: DeprecationWarning: openspiel_env.catch is now catch_env; please import from there.")


def test_a_game_that_is_not_installed_says_how_to_install_it() -> None:
    ended = run("import sys; sys.modules['game_2048_env'] = None; from openspiel_env.game_2048 import Game2048Action")
    assert ended.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: openspiel_env.game_2048 is now game_2048_env, in a package of its own; install it: "
        "pip install openenv-game-2048-env"
    )


def test_what_a_game_lacks_is_named_as_it_is() -> None:
    ended = run("import openspiel_env.catch.no_such_module")
    assert "No module named 'catch_env.no_such_module'" in ended.stderr.splitlines()[-1]
