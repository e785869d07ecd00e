from random import Random

import pytest

from openenv.adapters.openspiel.episode import Episode
from openenv.adapters.openspiel.games import load_game
from openenv.adapters.openspiel.opponents import OpponentPolicy

OPPONENTS: list[OpponentPolicy] = ["random", "first", "last"]


def episode(name: str, policy: OpponentPolicy = "random", *, agent: int = 0, seed: int = 1) -> Episode:
    return Episode(load_game(name, {}, seed), agent, policy, seed)


def play_out(running: Episode, seed: int = 7) -> list[object]:
    """Play with random moves and return all that was seen."""
    random, seen = Random(seed), []
    while not running.over:
        seen.append((running.player, running.legal_actions, running.opponent_last_action, running.text()))
        running.play(random.choice(running.legal_actions))
    return [*seen, running.returns, running.info_state(), running.moves]


@pytest.mark.parametrize(
    "name", ["backgammon", "kuhn_poker", "goofspiel", "negotiation", "2048", "hearts", "snake", "tarok"]
)
def test_a_seed_makes_the_same_episode(name: str) -> None:
    assert play_out(episode(name)) == play_out(episode(name))
    assert len({str(play_out(episode(name, seed=seed))) for seed in range(5)}) > 1


def test_the_opponents_randomness_does_not_move_chance() -> None:
    assert len({tuple(point_cards(policy)) for policy in OPPONENTS}) == 1


def point_cards(policy: OpponentPolicy) -> list[str]:
    """The cards that chance turns up in a game of goofspiel, whatever the players bid."""
    running, cards = episode("goofspiel", policy, seed=3), []
    while not running.over:
        cards += [line for line in running.view().splitlines() if line.startswith("Current point card")]
        running.play(running.legal_actions[0])
    return cards


def test_the_end_is_seen_by_the_agent() -> None:
    running = episode("kuhn_poker", "first", agent=1)
    while not running.over:
        running.play(1)
    assert running.text().startswith("You are player 1 of kuhn_poker.\n")
    assert f"Your return: {running.returns[1]:g}" in running.text()


def test_the_other_player_begins_where_the_agent_is_second() -> None:
    running = episode("tic_tac_toe", "first", agent=1)
    assert (running.player, running.moves, running.opponent_last_action) == (1, 1, 0)
    assert running.legal_actions == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(("policy", "answer"), [("first", 0), ("middle", 5), ("last", 8)])
def test_fixed_opponents_answer_by_place(policy: OpponentPolicy, answer: int) -> None:
    running = episode("tic_tac_toe", policy)
    running.play(4)
    assert running.opponent_last_action == answer
    assert running.moves == 2


def test_one_client_may_play_all_sides() -> None:
    running = episode("tic_tac_toe", "self")
    players = []
    for cell in (0, 3, 1, 4, 2):
        players.append(running.player)
        running.play(cell)
    assert players == [0, 1, 0, 1, 0]
    assert running.over
    assert running.returns == [1.0, -1.0]
    assert running.opponent_last_action is None


def test_moves_at_once_are_made_together() -> None:
    running = episode("matrix_rps", "self")
    assert (running.player, running.legal_actions) == (0, [0, 1, 2])
    before = running.text()
    running.play(1)
    assert not running.over
    assert (running.player, running.legal_actions) == (1, [0, 1, 2])
    assert (
        running.text().splitlines()[1:] == before.splitlines()[1:]
    )  # the first move is not shown to the second player
    running.play(0)
    assert running.returns == [1.0, -1.0]


@pytest.mark.parametrize("agent", [0, 1])
def test_a_move_at_once_is_shown_only_after_the_agents_own(agent: int) -> None:
    running = episode("goofspiel", "last", agent=agent)
    assert (running.player, running.opponent_last_action) == (agent, None)
    running.play(running.legal_actions[0])
    assert running.opponent_last_action == 12


def test_moves_that_the_rules_hide_are_not_told() -> None:
    running = episode("phantom_ttt", "first")
    running.play(4)
    assert running.opponent_last_action is None
    open_running = episode("kuhn_poker", "last")
    open_running.play(0)
    assert open_running.opponent_last_action == 1


def test_the_text_says_who_plays_what_and_which_moves_there_are() -> None:
    running = episode("tic_tac_toe", "first")
    running.play(4)
    assert running.text().splitlines() == [
        "You are player 0 of tic_tac_toe.",
        "o..",
        ".x.",
        "...",
        "Legal actions: 1 = x(0,1), 2 = x(0,2), 3 = x(1,0), 5 = x(1,2), 6 = x(2,0), 7 = x(2,1), 8 = x(2,2)",
    ]
    for cell in (2, 6):
        running.play(cell)
    assert running.text().endswith("The game is over. Your return: 1")


def test_text_for_terminals_has_no_colour_codes() -> None:
    assert "\x1b" not in episode("twixt").text()


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "phantom_ttt", "liars_dice"])
def test_the_view_of_a_player_does_not_depend_on_what_is_hidden_from_it(name: str) -> None:
    """Whatever the others hold, a player with the same private outcome sees the same."""
    views: dict[str, set[str]] = {}
    for seed in range(60):
        running = episode(name, seed=seed)
        views.setdefault(str(running.info_state()), set()).add(running.text())
    assert all(len(texts) == 1 for texts in views.values())
