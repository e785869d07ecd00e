"""Players compared on the same fresh seeds."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold, write_files

from openenv.train.agents.policy import make_policy
from openenv.train.evaluation.scoring import evaluate_policy, evaluate_random_player, evaluate_scripted_player
from openenv.train.settings.config import TrainConfig
from openenv.train.spec.sessions import Sessions
from openenv.train.tasks.seeds import evaluation_seeds


def config(**settings: Any) -> TrainConfig:
    return TrainConfig(**{"environment": "stairs", "rollouts": 8, "max_turns": 40, "eval_episodes": 30, **settings})


def test_a_policy_is_scored_on_as_many_seeds_as_asked_for(stairs: Sessions) -> None:
    policy = make_policy(config(fallback="up"), stairs)
    sampled = config(fallback="up", eval_temperature=1.0)
    first, again = (evaluate_policy(policy, stairs, sampled) for _ in range(2))
    assert first == again, "an evaluation must be repeatable"
    assert first.episodes == 30
    assert 0 < first.illegal_actions < first.mean_length <= 40
    seed = evaluation_seeds(1, 30)[5]
    shown = evaluate_policy(policy, stairs, sampled, sample_seed=seed)
    assert shown.sample_seed == seed
    assert shown.sample[0]["observation"] == f"step of {1 + seed % 4}"


def test_the_random_player_is_scored_on_the_same_seeds(stairs: Sessions) -> None:
    policy = make_policy(config(), stairs)
    score = evaluate_random_player(policy, stairs, config())
    assert score == evaluate_random_player(policy, stairs, config())
    heights = [1 + seed % 4 for seed in evaluation_seeds(1, 30)]
    assert score.mean_length > sum(heights) / len(heights)
    assert score.sample_seed is not None
    assert score.sample[0]["observation"] == f"step of {1 + score.sample_seed % 4}"
    assert evaluate_scripted_player(stairs, config()) is None


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
    with Sessions.open(str(jackdaws), 4) as sessions:
        score = evaluate_scripted_player(sessions, config(eval_episodes=eval_episodes, max_turns=2))
    assert score is not None
    assert (score.episodes, score.mean_length) == (eval_episodes, 2.0)
    # "Jackdaw Env environment ready!" has 30 letters: first three, then four.
    assert score.mean_reward == pytest.approx(0.7)
    assert score.standard_error == pytest.approx(0.0)


def test_the_random_player_says_the_same_from_the_same_seed(jackdaws: Path) -> None:
    settings = config(eval_episodes=2, max_turns=2)
    with Sessions.open(str(jackdaws), 2) as sessions:
        policy = make_policy(settings, sessions)
        first, again = (evaluate_random_player(policy, sessions, settings) for _ in range(2))
    assert first == again
