"""Scores: means over episodes, and players compared on the same fresh tasks."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold, write_files

from openenv.core.exceptions import OpenEnvError
from openenv.train.agents.policy import make_policy
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.episodes.episode import Episode, Turn
from openenv.train.evaluation.intervals import mean_estimate
from openenv.train.evaluation.scores import random_agent, score, score_of, scripted_agent
from openenv.train.rollout.sessions import Sessions
from openenv.train.settings.config import TrainConfig
from openenv.train.tasks.seeds import evaluation_seeds


def episode(*rewards: float, seed: int = 1, problem: str | None = None, error: OpenEnvError | None = None) -> Episode:
    return Episode(seed, turns=[Turn("shown", "done", reward, problem) for reward in rewards], error=error)


def test_a_score_is_means_over_the_episodes() -> None:
    reached = score_of([episode(0.0, 1.0), episode(-1.0, problem="no"), episode(0.5, 0.5, 1.0)])
    assert reached.mean_reward == pytest.approx(2 / 3)
    assert reached.standard_error == pytest.approx(((1 / 9 + 25 / 9 + 16 / 9) / 2 / 3) ** 0.5)
    assert reached.mean_length == 2.0
    assert reached.illegal_actions == pytest.approx(1 / 3)
    assert reached.episodes == 3
    assert (reached.low, reached.high) == (mean_estimate(reached.rewards).low, mean_estimate(reached.rewards).high)
    assert reached.sample == [{"observation": "shown", "action": "done", "reward": -1.0, "problem": "no"}]


def test_answers_without_a_call_are_no_legal_ones() -> None:
    silent = Episode(1, answers_without_call=1)
    assert score_of([episode(0.0, 1.0), episode(-1.0, problem="no")]).legal_answers == pytest.approx(2 / 3)
    assert score_of([episode(0.0, 1.0), silent, silent]).legal_answers == 0.5
    assert score_of([silent]).legal_answers == 0.0
    without = score_of([Episode(1)])
    assert (without.legal_answers, without.legal) == (None, "")
    assert score_of([episode(1.0)]).legal == "100%"


def test_the_sample_is_the_worst_episode_or_the_one_asked_for() -> None:
    episodes = [episode(0.0, 1.0, seed=1), episode(-1.0, seed=2), episode(-1.0, seed=3)]
    assert score_of(episodes).sample_seed == 2
    asked_for = score_of(episodes, 1)
    assert (asked_for.sample_seed, [turn["reward"] for turn in asked_for.sample]) == (1, [0.0, 1.0])
    assert score_of(episodes, 99).sample_seed == 2


def test_an_interval_ends_where_rewards_do() -> None:
    reached = score_of([episode(1.0), episode(1.0), episode(0.9)])
    assert (reached.high, reached.mean_reward < 1.0) == (1.0, True)


def test_one_episode_has_no_spread() -> None:
    reached = score_of([episode(1.0)])
    assert (reached.standard_error, reached.low, reached.high) == (0.0, None, None)


def test_the_best_the_median_and_the_worst_are_kept() -> None:
    rewards = [0.5, 2.0, -1.0, 0.25, 1.0]
    reached = score_of([episode(reward, seed=number) for number, reward in enumerate(rewards)])
    assert {name: (kept["seed"], kept["reward"]) for name, kept in reached.examples.items()} == {
        "best": (1, 2.0),
        "median": (0, 0.5),
        "worst": (2, -1.0),
    }
    assert reached.examples["best"]["turns"][0]["reward"] == 2.0
    assert reached.rewards == rewards
    assert list(score_of([episode(0.0), episode(1.0)]).examples) == ["best", "worst"]
    assert list(score_of([episode(0.0)]).examples) == ["best"]


def test_the_commonest_illegal_answers_are_counted() -> None:
    turns = [Turn("shown", text, 0.0, problem) for text, problem in (("jump", "no"), ("left", None), ("jump", "no"))]
    assert score_of([Episode(1, turns=turns), episode(0.0, problem="no")]).illegal_texts == {"jump": 2, "done": 1}


def test_failed_episodes_do_not_count() -> None:
    reached = score_of([episode(error=OpenEnvError("broke")), episode(1.0)])
    assert (reached.mean_reward, reached.episodes, len(reached.sample)) == (1.0, 1, 1)


def test_components_are_means_over_the_episodes_that_have_them() -> None:
    episodes = [
        Episode(seed, turns=[Turn("shown", "done", 1.0, None, components)])
        for seed, components in enumerate([{"format": 1.0, "answer": 0.5}, {"format": 0.0}])
    ]
    reached = score_of(episodes)
    assert reached.reward_components == {"format": 0.5, "answer": 0.5}
    assert reached.sample[0]["components"] == {"format": 1.0, "answer": 0.5}
    assert "components" not in score_of([episode(1, 1.0)]).sample[0]


def config(**settings: Any) -> TrainConfig:
    return TrainConfig(**{"environment": "stairs", "rollouts": 8, "max_turns": 40, "eval_episodes": 30, **settings})


def test_a_policy_is_scored_on_as_many_seeds_as_asked_for(stairs: Sessions) -> None:
    policy = make_policy(config(fallback="up"), stairs)
    sampled = config(fallback="up", eval_temperature=1.0)
    agent = PolicyAgent(policy, sampled, temperature=1.0)
    first, again = (score(agent, stairs, sampled) for _ in range(2))
    assert first == again, "an evaluation must be repeatable"
    assert first.episodes == 30
    assert 0 < first.illegal_actions < first.mean_length <= 40
    seed = evaluation_seeds(1, 30)[5]
    shown = score(agent, stairs, sampled, seed)
    assert shown.sample_seed == seed
    assert shown.sample[0]["observation"] == f"step of {1 + seed % 4}"


def test_the_random_player_is_scored_on_the_same_seeds(stairs: Sessions) -> None:
    policy = make_policy(config(), stairs)
    reached, again = (score(random_agent(policy, stairs, config()), stairs, config()) for _ in range(2))
    assert reached == again
    heights = [1 + seed % 4 for seed in evaluation_seeds(1, 30)]
    assert reached.mean_length > sum(heights) / len(heights)
    assert reached.sample_seed is not None
    assert reached.sample[0]["observation"] == f"step of {1 + reached.sample_seed % 4}"
    assert scripted_agent(stairs, config()) is None


@pytest.fixture(scope="module")
def jackdaws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment that brings a player along."""
    folder = scaffold(tmp_path_factory.mktemp("environments"), "jackdaw_env")
    write_files(
        folder,
        {
            "player.py": """
                from .models import JackdawAction

                def make_player(seed):
                    return lambda observation: JackdawAction(message="x" * (3 + len(observation.echoed_message) % 2))
                """,
        },
    )
    return folder


@pytest.mark.parametrize("eval_episodes", [1, 3, 4, 9])
def test_a_packages_player_is_scored(jackdaws: Path, eval_episodes: int) -> None:
    settings = config(eval_episodes=eval_episodes, max_turns=2)
    with Sessions.open(str(jackdaws), 4) as sessions:
        agent = scripted_agent(sessions, settings)
        assert agent is not None
        reached = score(agent, sessions, settings)
    assert (reached.episodes, reached.mean_length) == (eval_episodes, 2.0)
    # "Jackdaw Env environment ready!" has 30 letters: first three, then four.
    assert reached.mean_reward == pytest.approx(0.7)
    assert reached.standard_error == pytest.approx(0.0)


def test_the_random_player_says_the_same_from_the_same_seed(jackdaws: Path) -> None:
    settings = config(eval_episodes=2, max_turns=2)
    with Sessions.open(str(jackdaws), 2) as sessions:
        policy = make_policy(settings, sessions)
        agents = [random_agent(policy, sessions, settings) for _ in range(2)]
        first, again = (score(agent, sessions, settings) for agent in agents)
    assert first == again
