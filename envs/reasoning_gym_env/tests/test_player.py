"""The player, and one that guesses."""

import re
from pathlib import Path
from random import Random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.adapters.reasoning_gym.datasets import open_dataset
from reasoning_gym_env import AnswerAction, ReasoningObservation
from reasoning_gym_env.player import Calculation, answer_to, make_player
from reasoning_gym_env.server.reasoning_gym_environment import ReasoningGymEnvironment

pytestmark = pytest.mark.needs("reasoning-gym")

KNOWN = ["chain_sum", "basic_arithmetic", "products", "decimal_chain_sum", "gcd", "lcm", "needle_haystack"]


def test_the_player_scores_what_the_readme_says_and_a_guessing_one_next_to_nothing() -> None:
    environment = ReasoningGymEnvironment()
    scores, guessed = [], []
    for seed in range(200):
        scores.append(environment.step(make_player(seed)(environment.reset(seed=seed))).reward)
        environment.reset(seed=seed)
        guess = str(Random(f"{seed}/random").randint(-999, 999))
        guessed.append(environment.step(AnswerAction(answer=guess)).reward)
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"mean reward (\d\.\d+).*?has (\d\.\d+)", readme, re.DOTALL)
    assert stated is not None
    assert (f"{_mean(scores):.2f}", f"{_mean(guessed):.2f}") == stated.groups()
    assert _mean(scores) == 1.0
    assert _mean(guessed) < 0.05


def _mean(rewards: list[bool | int | float | None]) -> float:
    return mean(float(reward or 0.0) for reward in rewards)


@pytest.mark.parametrize("name", KNOWN)
def test_what_it_knows_it_answers(name: str) -> None:
    dataset = open_dataset(name, {"size": 200, "seed": 11})
    assert mean(dataset.score_answer(answer_to(entry["question"]), entry) for entry in dataset) == 1.0


@pytest.mark.parametrize("text", ["", "What is love?", "Calculate 1 / 0.", "Calculate ( 1 +.", "Calculate 5 5."])
def test_what_it_does_not_know_it_answers_with_zero(text: str) -> None:
    assert make_player(1)(ReasoningObservation(text=text)) == AnswerAction(answer="0")


@given(
    st.recursive(
        st.integers(0, 99).map(str), lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner)
    )
)
def test_it_calculates_as_python_does(expression: str) -> None:
    assert Calculation(expression).value() == eval(expression)


@given(st.text(alphabet="0123456789+-*/(). ", max_size=30))
def test_any_expression_has_a_value_or_none(text: str) -> None:
    try:
        Calculation(text).value()
    except (ValueError, ZeroDivisionError):
        return
