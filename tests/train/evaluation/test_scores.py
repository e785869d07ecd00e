"""Scores over episodes."""

import pytest

from openenv.core.exceptions import OpenEnvError
from openenv.train.episodes.episode import Episode, Turn
from openenv.train.evaluation.intervals import mean_estimate
from openenv.train.evaluation.scores import score_of


def episode(*rewards: float, seed: int = 1, problem: str | None = None, error: OpenEnvError | None = None) -> Episode:
    return Episode(seed, turns=[Turn("shown", "done", reward, problem) for reward in rewards], error=error)


def test_a_score_is_means_over_the_episodes() -> None:
    score = score_of([episode(0.0, 1.0), episode(-1.0, problem="no"), episode(0.5, 0.5, 1.0)])
    assert score.mean_reward == pytest.approx(2 / 3)
    assert score.standard_error == pytest.approx(((1 / 9 + 25 / 9 + 16 / 9) / 2 / 3) ** 0.5)
    assert score.mean_length == 2.0
    assert score.illegal_actions == pytest.approx(1 / 3)
    assert score.episodes == 3
    assert (score.low, score.high) == (mean_estimate(score.rewards).low, mean_estimate(score.rewards).high)
    assert score.sample == [{"observation": "shown", "action": "done", "reward": -1.0, "problem": "no"}]


def test_the_sample_is_the_worst_episode_or_the_one_asked_for() -> None:
    episodes = [episode(0.0, 1.0, seed=1), episode(-1.0, seed=2), episode(-1.0, seed=3)]
    assert score_of(episodes).sample_seed == 2
    asked_for = score_of(episodes, 1)
    assert (asked_for.sample_seed, [turn["reward"] for turn in asked_for.sample]) == (1, [0.0, 1.0])
    assert score_of(episodes, 99).sample_seed == 2


def test_an_interval_ends_where_rewards_do() -> None:
    score = score_of([episode(1.0), episode(1.0), episode(0.9)])
    assert (score.high, score.mean_reward < 1.0) == (1.0, True)


def test_one_episode_has_no_spread() -> None:
    score = score_of([episode(1.0)])
    assert (score.standard_error, score.low, score.high) == (0.0, None, None)


def test_the_best_the_median_and_the_worst_are_kept() -> None:
    rewards = [0.5, 2.0, -1.0, 0.25, 1.0]
    score = score_of([episode(reward, seed=number) for number, reward in enumerate(rewards)])
    assert {name: (kept["seed"], kept["reward"]) for name, kept in score.examples.items()} == {
        "best": (1, 2.0),
        "median": (0, 0.5),
        "worst": (2, -1.0),
    }
    assert score.examples["best"]["turns"][0]["reward"] == 2.0
    assert score.rewards == rewards
    assert list(score_of([episode(0.0), episode(1.0)]).examples) == ["best", "worst"]
    assert list(score_of([episode(0.0)]).examples) == ["best"]


def test_the_commonest_illegal_answers_are_counted() -> None:
    turns = [Turn("shown", text, 0.0, problem) for text, problem in (("jump", "no"), ("left", None), ("jump", "no"))]
    assert score_of([Episode(1, turns=turns), episode(0.0, problem="no")]).illegal_texts == {"jump": 2, "done": 1}


def test_failed_episodes_do_not_count() -> None:
    score = score_of([episode(error=OpenEnvError("broke")), episode(1.0)])
    assert (score.mean_reward, score.episodes, len(score.sample)) == (1.0, 1, 1)


def test_components_are_means_over_the_episodes_that_have_them() -> None:
    episodes = [
        Episode(seed, turns=[Turn("shown", "done", 1.0, None, components)])
        for seed, components in enumerate([{"format": 1.0, "answer": 0.5}, {"format": 0.0}])
    ]
    score = score_of(episodes)
    assert score.reward_components == {"format": 0.5, "answer": 0.5}
    assert score.sample[0]["components"] == {"format": 1.0, "answer": 0.5}
    assert "components" not in score_of([episode(1, 1.0)]).sample[0]
