from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from openenv.core.exceptions import IllegalActionError, ResetNeededError
from wordle_env import WordleAction, WordleObservation
from wordle_env.server.wordle_environment import WordleEnvironment
from wordle_env.words import word_list

WRONG = ["stare", "house", "bread", "music", "table", "green"]


def secret_of(seed: int, word_length: int = 5) -> str:
    return word_list(word_length).secret(seed)


def play(environment: WordleEnvironment, words: list[str]) -> Iterator[WordleObservation]:
    for word in words:
        yield environment.step(WordleAction(word=word))


def test_a_reset_shows_an_empty_board() -> None:
    observation = WordleEnvironment().reset(seed=1)
    assert (observation.word_length, observation.guesses_left) == (5, 6)
    assert (observation.feedback, observation.guesses, observation.feedbacks) == ("", [], [])
    assert (observation.reward, observation.done, observation.target_word) == (None, False, None)


@pytest.mark.parametrize("word", ["{}", " {}\n"])
@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_the_secret_wins_in_any_case(word: str, case: type[str]) -> None:
    environment = WordleEnvironment()
    environment.reset(seed=1)
    observation = environment.step(WordleAction(word=word.format(case(secret_of(1)))))
    assert (observation.done, observation.reward) == (True, 1.0)
    assert observation.feedback == "🟩🟩🟩🟩🟩"
    assert observation.target_word == secret_of(1).upper()


def test_six_wrong_guesses_lose_with_a_float_reward_on_every_step() -> None:
    environment = WordleEnvironment()
    environment.reset(seed=1)
    observations = list(play(environment, WRONG))
    assert [type(observation.reward) for observation in observations] == [float] * 6
    assert [observation.reward for observation in observations] == [0.0] * 6
    assert [observation.done for observation in observations] == [False] * 5 + [True]
    assert [observation.guesses_left for observation in observations] == [5, 4, 3, 2, 1, 0]
    assert observations[-1].guesses == [word.upper() for word in WRONG]
    assert observations[-1].target_word == secret_of(1).upper()


def test_refused_guesses_say_why_and_do_not_count() -> None:
    environment = WordleEnvironment()
    environment.reset(seed=1)
    before = environment.step(WordleAction(word="stare"))
    for word, says in [("STARE", "guessed before"), ("zzzzz", "word list"), ("abc", "3 characters"), ("été" * 2, "6")]:
        with pytest.raises(IllegalActionError, match=says):
            environment.step(WordleAction(word=word))
    assert environment.state.step_count == 1
    after = environment.step(WordleAction(word="house"))
    assert after.guesses_left == before.guesses_left - 1


def test_there_is_nothing_to_guess_before_a_reset_or_after_the_end() -> None:
    environment = WordleEnvironment()
    with pytest.raises(ResetNeededError):
        environment.step(WordleAction(word="stare"))
    environment.reset(seed=1)
    environment.step(WordleAction(word=secret_of(1)))
    with pytest.raises(ResetNeededError):
        environment.step(WordleAction(word="stare"))


@pytest.mark.parametrize("length", [3, 4, 7, 9])
def test_a_reset_may_ask_for_another_length(length: int) -> None:
    environment = WordleEnvironment()
    assert environment.reset(seed=1, word_length=length).word_length == length
    assert environment.step(WordleAction(word=secret_of(1, length))).reward == 1.0


def test_instances_play_their_own_games() -> None:
    one, other = WordleEnvironment(), WordleEnvironment()
    one.reset(seed=1)
    other.reset(seed=2)
    one.step(WordleAction(word="stare"))
    assert other.state.guesses == []
    assert other.step(WordleAction(word=secret_of(2))).reward == 1.0
    assert not one.state.solved


@given(st.integers(0, 2**32), st.permutations(WRONG))
def test_the_secret_does_not_leak_before_the_end(seed: int, words: list[str]) -> None:
    environment = WordleEnvironment()
    secret = secret_of(seed)
    assume(secret not in shown_to_all())
    shown = [environment.reset(seed=seed).model_dump_json(), environment.state.model_dump_json(), environment.render()]
    for word in words[:5]:
        if word != secret:
            shown.append(environment.step(WordleAction(word=word)).model_dump_json())
            shown += [environment.state.model_dump_json(), environment.render(), str(environment.get_metadata())]
    assert not any(secret in text.lower() for text in shown)


def shown_to_all() -> str:
    """What every game shows; it holds words like "guess" and "place", which are secrets too."""
    environment = WordleEnvironment()
    environment.reset(seed=1)
    observation = environment.step(WordleAction(word="stare"))
    texts = [WordleEnvironment().reset(seed=1).model_dump_json(), observation.model_dump_json()]
    return "".join([*texts, environment.state.model_dump_json(), str(environment.get_metadata())]).lower()


def test_the_board_is_rendered_once_there_is_one() -> None:
    environment = WordleEnvironment()
    assert environment.render() == ""
    environment.reset(seed=1)
    assert environment.render().count(" _ ") == 30
