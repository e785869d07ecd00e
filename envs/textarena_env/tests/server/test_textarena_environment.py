import random
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import cache
from threading import Barrier
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from openenv.core.exceptions import InvalidRequestError, ResetNeededError
from textarena_env import TextArenaAction, TextArenaObservation
from textarena_env.player import make_player
from textarena_env.server.settings import Settings
from textarena_env.server.textarena_environment import TextArenaEnvironment

# One each of: words, boards, cards, dice, several players, chance in numpy, another module's generator.
GAMES: list[dict[str, Any]] = [
    {"env_id": "Crosswords-v0"},
    {"env_id": "2048-v0"},
    {"env_id": "Minesweeper-v0"},
    {"env_id": "Blackjack-v0"},
    {"env_id": "PigDice-v0", "opponents": "random", "player_id": 1},
    {"env_id": "TicTacToe-v0", "opponents": "random", "player_id": 1},
    {"env_id": "SpellingBee-v0"},
    {"env_id": "FrozenLake-v0-random"},
]


def say(environment: TextArenaEnvironment, message: str) -> TextArenaObservation:
    return environment.step(TextArenaAction(message=message))


def play(seed: int, turns: int = 15, meet: Barrier | None = None, **task: Any) -> list[TextArenaObservation]:
    environment, player = TextArenaEnvironment(), make_player(0)
    observations = [environment.reset(seed=seed, **task)]
    for _ in range(turns):
        if meet is not None:
            meet.wait()
        if not observations[-1].done:
            observations.append(environment.step(player(observations[-1])))
    return observations


def secret_of(environment: TextArenaEnvironment) -> str:
    assert environment._episode is not None
    secret: str = environment._episode.game._game.state.game_state["secret_word"]
    return secret


def test_the_word_wins_one_and_ends_it() -> None:
    environment = TextArenaEnvironment()
    first = environment.reset(seed=1)
    assert (first.reward, first.done, first.current_player_id, first.legal_players) == (None, False, 0, [0])
    end = say(environment, secret_of(environment))
    assert (end.reward, end.done, end.legal_players) == (1.0, True, [])
    assert end.info["rewards"] == {"0": 1.0}
    assert end.info["reward_signals"]["wordle.correct"] == 1.0
    assert end.text.endswith("\n[GAME] Congratulations! You guessed the word correctly!")
    assert not [message for message in end.messages if "Feedback:" in message.content]


def test_a_lost_game_of_wordle_is_worth_nothing_and_its_share_is_reported() -> None:
    environment = TextArenaEnvironment()
    environment.reset(seed=1)
    secret = secret_of(environment)
    words = [word for word in ("crane", "shout", "lumpy", "badge", "fifth", "wreck", "blown") if word != secret]
    observations = [say(environment, word) for word in words[:6]]
    assert [observation.reward for observation in observations] == [0.0] * 6
    assert [observation.done for observation in observations] == [False] * 5 + [True]
    signals = observations[-1].info["reward_signals"]
    assert observations[-1].info["rewards"]["0"] == signals["wordle.greens"] + signals["wordle.yellows"] / 2


def test_illegal_moves_are_the_game_s_business() -> None:
    environment = TextArenaEnvironment()
    environment.reset(seed=1)
    refused = say(environment, "[toolong]")
    assert (refused.done, refused.reward, refused.messages[-1].category) == (False, 0.0, "GAME_ADMIN")
    assert "You attempted an invalid move. Reason: Your word must be exactly 5 letters." in refused.text
    assert not say(environment, "[crane]").done
    say(environment, "[toolong]")
    assert say(environment, "[crane]").done


def test_there_is_nothing_to_write_to_before_a_reset_or_after_the_end() -> None:
    environment = TextArenaEnvironment()
    with pytest.raises(ResetNeededError):
        say(environment, "[crane]")
    environment.reset(seed=1)
    say(environment, secret_of(environment))
    with pytest.raises(ResetNeededError):
        say(environment, "[crane]")


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({"env_id": "Wordl"}, "no game with the id"),
        ({"num_players": 2}, "can't be played with num_players=2"),
        ({"env_id": "TicTacToe-v0", "opponents": "random", "player_id": 2}, "from 0 to 1 in TicTacToe-v0, got 2"),
        ({"env_id": "Codenames-v0", "opponents": "random"}, "no random opponents"),
        ({"env_id": "GuessWho-v0"}, "can't be played here"),
    ],
)
def test_a_wrong_task_is_refused_and_the_episode_goes_on(task: dict[str, Any], says: str) -> None:
    environment = TextArenaEnvironment()
    environment.reset(seed=1, episode_id="goes on")
    with pytest.raises(InvalidRequestError, match=says):
        environment.reset(**task)
    assert environment.state.episode_id == "goes on"
    assert not say(environment, "[crane]").done


def test_the_rewards_of_two_players_are_those_of_who_moved_or_of_the_client() -> None:
    environment = TextArenaEnvironment()
    environment.reset(seed=1, env_id="TicTacToe-v0")
    observations = [say(environment, f"[{cell}]") for cell in (4, 0, 3, 1, 5)]
    assert [observation.reward for observation in observations] == [0.0] * 4 + [1.0]
    assert observations[-1].info == {"rewards": {"0": 1.0, "1": -1.0}, "reason": "Player 0 has won!"}
    environment.reset(seed=1, env_id="TicTacToe-v0")
    say(environment, "nonsense")
    assert say(environment, "nonsense").reward == -1.0


def test_an_episode_that_is_cut_off_says_so() -> None:
    environment = TextArenaEnvironment()
    environment.reset(seed=1, env_id="2048-v0", max_turns=1)
    end = say(environment, "[up]")
    assert (end.done, end.reward, end.info["truncated"]) == (True, 0.0, True)
    assert environment.state.max_turns == 1


def test_the_server_s_settings_hold_where_a_reset_says_nothing() -> None:
    settings = Settings(env_id="TicTacToe-v0", max_turns=4, opponents="random", history="cumulative")
    environment = TextArenaEnvironment(settings)
    observation = environment.reset(seed=1)
    assert (observation.messages[0].category, environment.state.num_players) == ("MESSAGE", 2)
    assert say(environment, "[4]").current_player_id == 0
    own = TextArenaEnvironment(Settings(options={"num_guesses": 1}))
    assert "You have 1 attempts" in own.reset(seed=1).prompt
    assert "You have 6 attempts" in own.reset(seed=1, env_id="Wordle-v0-hardcore").prompt


@pytest.mark.parametrize("task", GAMES, ids=lambda task: str(task["env_id"]))
def test_a_seed_repeats_an_episode_and_another_makes_another(task: dict[str, Any]) -> None:
    episodes = [play(3, **task), play(3, **task)]
    assert episodes[0] == episodes[1]
    assert len({"".join(each.text for each in play(seed, turns=6, **task)) for seed in range(5)}) > 1


@pytest.mark.level("socket")
def test_64_episodes_at_once_are_those_that_are_played_alone() -> None:
    """Each thread waits for all others before each move, while another one stirs the process's own generator."""
    tasks = [GAMES[number % len(GAMES)] for number in range(64)]
    together = Barrier(64)
    with ThreadPoolExecutor(65) as threads:
        stirring = threads.submit(lambda: [random.random() for _ in range(300_000)])
        at_once = list(threads.map(lambda number: play(number, meet=together, **tasks[number]), range(64)))
        stirring.result()
    assert at_once == [play(number, **tasks[number]) for number in range(64)]


@pytest.mark.parametrize("task", GAMES, ids=lambda task: str(task["env_id"]))
def test_a_copy_goes_on_alike_and_apart(task: dict[str, Any]) -> None:
    environment, player = TextArenaEnvironment(), make_player(2)
    observation = environment.reset(seed=2, **task)
    for _ in range(3):
        if not observation.done:
            observation = environment.step(player(observation))
    copy, its_player = deepcopy(environment), deepcopy(player)
    if not observation.done:
        assert environment.step(player(observation)) == copy.step(its_player(observation))
    assert environment.state == copy.state


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.permutations(["[crane]", "[shout]", "[lumpy]", "[badge]", "nonsense"]))
def test_the_secret_does_not_leak_before_the_end(seed: int, guesses: list[str]) -> None:
    environment = TextArenaEnvironment()
    shown = [environment.reset(seed=seed).model_dump_json(), environment.state.model_dump_json()]
    secret = secret_of(environment)
    assume(secret not in shown_to_all())
    for guess in guesses:
        if secret not in guess:
            shown += [
                say(environment, guess).model_dump_json(),
                environment.state.model_dump_json(),
            ]
    assert not any(secret in text.lower() for text in shown)


@cache
def shown_to_all() -> str:
    """What every game shows; it holds words like "guess" and "state", which are secrets too."""
    environment = TextArenaEnvironment()
    observations = [environment.reset(seed=1), say(environment, "[crane]"), say(environment, "nonsense")]
    shown = [each.model_dump_json() for each in observations]
    return "".join([*shown, environment.state.model_dump_json()]).lower()


def test_the_state_of_other_games_holds_no_board_of_theirs() -> None:
    for env_id in ("Minesweeper-v0", "Codenames-v0", "Sudoku-v0-easy", "KuhnPoker-v0"):
        environment = TextArenaEnvironment()
        environment.reset(seed=1, env_id=env_id)
        assert environment.state.raw_state.keys() == {"current_player_id", "done", "max_turns"}


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(GAMES), st.lists(st.text(max_size=30), max_size=6))
def test_any_text_is_answered(task: dict[str, Any], texts: list[str]) -> None:
    environment = TextArenaEnvironment()
    observation = environment.reset(seed=1, **task)
    for text in texts:
        if not observation.done:
            observation = say(environment, text)
            assert isinstance(observation.reward, float)
