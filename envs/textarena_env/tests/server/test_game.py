import re
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from openenv.core.exceptions import InvalidRequestError
from textarena_env.server.game import Game, UnsuitablePlayersError, game_name, start
from textarena_env.server.library import registry

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
# What can be played is found when the file is imported, which loads all of TextArena.
pytestmark = pytest.mark.level("service")

UNPLAYABLE = {
    "BabyAiText": "No module named 'gym'",
    "Checkers": "SyntaxError",
    "Chess": "SyntaxError",
    "Debate": "OpenRouter API key",
    "GuessWho": "OpenRouter API key",
    "IteratedStagHunt": "SyntaxError",
    "Klondike": "SyntaxError",
    "ReverseTicTacToe": "SyntaxError",
    "ScenarioPlanning": "OpenRouter API key",
    "ScorableGames": "FileNotFoundError",
    "TwentyQuestions": "OpenRouter API key",
    "UltimateTexasHoldem": "SyntaxError",
    "UsedCar": "No module named",
    "UsedCarNegotiation": "FileNotFoundError",
}
BROKEN = {"CharacterConclave"}
ANYTHING = ["[1]", "[0 1]", "[pass]", "[crane]", "hello", "", "[", "[-1]", "[99999999999]", "é[1 2 3]", "[accept]"]


def one_id_of_each_game() -> dict[str, str]:
    ids: dict[str, str] = {}
    for env_id in registry():
        if not env_id.endswith(("-raw", "-train")):
            ids.setdefault(game_name(env_id), env_id)
    return ids


PLAYABLE = {name: env_id for name, env_id in one_id_of_each_game().items() if name not in UNPLAYABLE.keys() | BROKEN}


def turns(game: Game, seed: int) -> Iterator[list[str]]:
    """Play what the game shows in brackets, now and then anything, and give what is said."""
    chance, shown = Random(seed), ["[1]"]
    while True:
        said = [f"{message.sender_id} {message.content}" for message in game.unread(game.player)]
        yield said
        if game.over:
            return
        shown = re.findall(r"\[[^\[\]\n]{1,40}\]", " ".join(said)) or shown
        game.play(chance.choice(shown if chance.random() < 0.8 else ANYTHING))


@pytest.mark.parametrize("name", PLAYABLE)
def test_a_game_can_be_played_and_a_seed_repeats_it(name: str) -> None:
    episodes = []
    for _ in range(2):
        game = start(PLAYABLE[name], None, 1, 5, {})
        said = list(islice(turns(game, 1), 12))
        episodes.append((said, game.over, game.rewards, game.reason(0)))
        if game.over:
            assert set(game.rewards) == set(range(game.num_players))
    assert episodes[0] == episodes[1]
    assert any(episodes[0][0])


@pytest.mark.parametrize("name", UNPLAYABLE)
def test_what_cannot_be_played_says_why(name: str) -> None:
    with pytest.raises(InvalidRequestError, match=UNPLAYABLE[name]) as raised:
        start(one_id_of_each_game()[name], None, 1, 5, {})
    assert "can't be played here" in str(raised.value)


def test_the_readme_lists_every_game() -> None:
    stated = README[README.index("## The games") : README.index("**Random opponents**")]
    short = {"Game2048": "2048", "Santorini": "SantoriniBaseFixed"}
    names = (short.get(name, name).removeprefix("Iterated") for name in one_id_of_each_game())
    assert [name for name in names if not re.search(rf"\b(Iterated)?{name}\b", stated)] == []
    assert sum(map(int, re.findall(r"\*\*(\d+) can", stated))) == 238


@pytest.mark.parametrize("env_id", ["", "wordle", "Wordle-v1", "Wordle-v0-huge"])
def test_an_unknown_id_is_answered_with_the_closest(env_id: str) -> None:
    with pytest.raises(InvalidRequestError, match="no game with the id"):
        start(env_id, None, 1, 1, {})


@pytest.mark.parametrize(
    ("env_id", "players"),
    [("Wordle-v0", 2), ("TicTacToe-v0", 1), ("TicTacToe-v0", 3), ("QuantumTicTacToe-v0", 1), ("Codenames-v0", 5)],
)
def test_a_number_of_players_that_does_not_fit_is_refused(env_id: str, players: int) -> None:
    with pytest.raises(UnsuitablePlayersError, match=f"num_players={players}"):
        start(env_id, players, 1, 1, {})


@pytest.mark.parametrize(
    ("env_id", "least", "players"),
    [
        ("Wordle-v0", 1, 1),
        ("TicTacToe-v0", 1, 2),
        ("LiarsDice-v0", 1, 2),
        ("LiarsDice-v0", 5, 5),
        ("SecretMafia-v0", 1, 6),
    ],
)
def test_a_game_has_as_many_players_as_it_needs(env_id: str, least: int, players: int) -> None:
    assert start(env_id, None, least, 1, {}).num_players == players


def test_options_change_the_game_and_wrong_ones_are_refused() -> None:
    (rules,) = start("Wordle-v0", None, 1, 1, {"word_length": 7}).unread(0)
    assert "secret 7-letter word" in rules.content
    with pytest.raises(InvalidRequestError, match="TypeError"):
        start("Wordle-v0", None, 1, 1, {"no_such": 1})


def test_a_copy_goes_on_alike_and_apart() -> None:
    game = start("2048-v0", None, 1, 3, {})
    list(islice(turns(game, 1), 5))
    copy = deepcopy(game)
    played = [list(islice(turns(each, 2), 8)) for each in (game, copy)]
    assert played[0] == played[1]
    assert any(played[0])


def test_legal_moves_are_found_without_changing_the_game() -> None:
    game = start("TicTacToe-v0", None, 1, 1, {})
    assert game.play("[4]")
    before = game.unread(1)
    assert game.first_legal(["[4]", "[9]", "nothing", "[x]", "[3]", "[2]"]) == "[3]"
    assert game.first_legal(["[4]"]) is None
    assert (game.player, game.turn, game.over, game.unread(1)) == (1, 1, False, [])
    assert before
    assert [(game.play("[4]"), game.over) for _ in range(2)] == [(False, False), (False, True)]
    assert game.rewards == {0: 1.0, 1: -1.0}


def test_a_transcript_grows_at_its_end() -> None:
    game, seen = start("Sudoku-v0-very-easy", None, 1, 1, {}), ""
    for move in ("[1 1 1]", "[9 9 9]"):
        (whole,) = game.transcript(0, game.unread(0))
        assert (whole.sender_id, whole.category) == (-1, "MESSAGE")
        assert whole.content.startswith(f"{seen}\n[")
        seen = whole.content
        game.play(move)
    assert "\n[Player] [1 1 1]" in seen


def test_raw_ids_have_no_transcript_and_train_ids_one_of_their_own() -> None:
    raw, train = start("Wordle-v0-raw", None, 1, 1, {}), start("Sudoku-v0-train", None, 1, 1, {})
    new = raw.unread(0)
    assert raw.transcript(0, new) is new
    (shown,) = train.transcript(0, train.unread(0))
    assert shown.content.startswith("You are Player 0. You are playing Sudoku.")


def test_another_process_with_other_hashes_plays_the_same_game() -> None:
    """Sets have another order in every process; only what a game shows of them counts."""
    program = """
from textarena_env.server.game import start
for env_id in ("WordChains-v0", "SpellingBee-v0", "ThreeCardMonte-v0", "Sokoban-v0", "Crosswords-v0", "Taboo-v0"):
    game = start(env_id, None, 1, 5, {})
    game.play("[crane]")
    print([message.content for message in game.unread(0)])
"""
    printed = [
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, timeout=120, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert len(printed[0]) > 1000
