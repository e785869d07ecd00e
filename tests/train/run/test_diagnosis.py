"""What is said of a run's metrics and scores, each cause apart, without a training."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from openenv.records.scores import AFTER, BEFORE, RANDOM, SCRIPTED, WARMED_UP, Score
from openenv.train.run.diagnosis import LAST_STEPS, diagnose
from openenv.train.settings.config import EnvironmentSettings, TrainConfig

CONFIG = TrainConfig(environment="catch", max_turns=7, max_context=500, max_action_tokens=9)
GOOD = {
    "reward": 0.3,
    "best_reward": 1.0,
    "worst_reward": -1.0,
    "length": 4.0,
    "illegal_actions": 0.4,
    "flat_groups": 0.1,
    "cut_by_max_turns": 0.1,
    "cut_by_max_context": 0.0,
    "cut_answers": 0.1,
}


def steps(
    count: int = LAST_STEPS, entropy: float = 1.0, prefix: str = "episode/", **others: Any
) -> list[dict[str, Any]]:
    episodes = {f"{prefix}{name}": value for name, value in {**GOOD, **others}.items()}
    return [{"step": number, "entropy": entropy, **episodes} for number in range(1, count + 1)]


def score(*rewards: float, illegal: float = 0.0, error: float = 0.01, texts: dict[str, int] | None = None) -> Score:
    mean = sum(rewards) / len(rewards)
    return Score(mean, error, 4.0, illegal, len(rewards), 1, [], list(rewards), {}, texts or {})


def found(
    metrics: list[dict[str, Any]], scores: dict[str, Score] | None = None, rollouts: Sequence[dict[str, Any]] = ()
) -> dict[str, str]:
    """Return the warnings by their names, but for that of few episodes, which these scores all have."""
    warnings = diagnose(CONFIG, metrics, scores or {}, rollouts)
    return {warning.name: str(warning) for warning in warnings if warning.name != "few_episodes"}


def played(*groups: list[float], illegal: int = 0) -> list[dict[str, Any]]:
    episodes = [
        {"group": number, "task": {}, "reward": reward, "illegal_actions": illegal}
        for number, rewards in enumerate(groups)
        for reward in rewards
    ]
    return [{"step": 1, "environment": "", "episodes": episodes}]


def test_a_run_that_goes_well_has_no_warnings() -> None:
    scores = {BEFORE: score(-1.0, 0.0), SCRIPTED: score(1.0, 1.0), AFTER: score(0.8, 0.9)}
    assert found(steps(), scores) == {}


def test_nothing_is_concluded_from_a_few_steps() -> None:
    assert found(steps(LAST_STEPS - 1, flat_groups=1.0, illegal_actions=4.0)) == {}
    assert found([]) == {}


def test_groups_without_variance() -> None:
    (text,) = found(steps(flat_groups=0.87, reward=0.0, best_reward=0.0, worst_reward=0.0)).values()
    assert text.startswith("In 87% of the groups of the last 10 steps all episodes got the same reward (the mean is")
    assert "+0.000" in text
    assert "try an easier task" in text


def test_a_policy_that_gets_the_best_reward_may_always_act_alike() -> None:
    assert found(steps(flat_groups=1.0, entropy=0.0, reward=0.97)) == {}
    assert found(steps(flat_groups=1.0, entropy=0.0, reward=0.5)).keys() == {"flat_groups", "low_entropy"}
    same = steps(flat_groups=1.0, reward=1.0, best_reward=1.0, worst_reward=1.0)
    assert found(same).keys() == {"flat_groups"}, "nobody has seen another reward"


@pytest.mark.parametrize("others", [{RANDOM: score(-1.0, 1.0)}, {SCRIPTED: score(1.0), BEFORE: score(-1.0, -0.5)}])
def test_a_policy_that_a_warm_up_has_taught_the_best_reward_has_nothing_to_compare(others: dict[str, Score]) -> None:
    solved = steps(flat_groups=1.0, entropy=0.0, reward=1.0, best_reward=1.0, worst_reward=1.0)
    assert found(solved, {**others, WARMED_UP: score(1.0, 1.0)}) == {}
    lost = steps(flat_groups=1.0, entropy=0.0, reward=-1.0, best_reward=-1.0, worst_reward=-1.0)
    assert found(lost, others).keys() == {"flat_groups", "low_entropy"}


def test_only_illegal_answers_with_the_commonest() -> None:
    texts = {"jump": 30, "": 4}
    (text,) = found(steps(illegal_actions=3.9, illegal_texts=texts)).values()
    assert text.startswith("98% of the answers in the last 10 steps were no legal action, most often ")
    assert "'jump' (300 times), '' (40 times): try examples first (--sft)" in text


def test_only_illegal_answers_in_the_evaluation_alone() -> None:
    scores = {BEFORE: score(-1.0), AFTER: score(0.5, illegal=4.0, texts={"jump": 8})}
    (text,) = found([], scores).values()
    assert text.startswith(
        "100% of the answers in the evaluation after training were no legal action, most often 'jump'"
    )


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("cut_by_max_turns", 0.4, "40% of the episodes of the last 10 steps were cut off after max_turns=7 actions"),
        ("cut_by_max_context", 0.25, "25% of the episodes of the last 10 steps were cut off at max_context=500 tokens"),
        ("cut_answers", 1.0, "25% of the answers in the last 10 steps were cut off at max_action_tokens=9 tokens"),
    ],
)
def test_limits(metric: str, value: float, text: str) -> None:
    others: dict[str, Any] = {metric: value}
    (warning,) = found(steps(**others)).values()
    assert warning.startswith(text)
    assert "try a larger --max-" in warning


def test_entropy_that_collapsed() -> None:
    (text,) = found([*steps(entropy=1.9), *steps(entropy=0.012)]).values()
    assert "entropy 0.012 nats a token in the last 10 steps, 1.900 in the first" in text
    assert "--learning-rate" in text


def test_a_model_above_the_scripted_player() -> None:
    scores = {BEFORE: score(-1.0), SCRIPTED: score(1.0, 1.0), AFTER: score(1.3, 1.4)}
    (text,) = found([], scores).values()
    assert text.startswith(
        "The model's mean reward +1.350 is above the scripted player's +1.000: read its best episode"
    )
    scores[SCRIPTED] = score(1.0, 1.0, error=0.2)
    assert found([], scores) == {}, "chance"


def test_a_reward_that_did_not_move() -> None:
    before, after = score(-0.1, 0.0), score(-0.05, 0.0)
    (text,) = found(steps(), {BEFORE: before, SCRIPTED: score(1.0), AFTER: after}).values()
    assert text.startswith("The mean reward after training, -0.025 ± 0.010, is no better than before, -0.050 ± 0.010")
    best = score(1.0, 1.0)
    assert found(steps(), {BEFORE: best, SCRIPTED: best, AFTER: best, "random player": score(0.0)}) == {}


def test_each_of_several_environments_has_its_own_warnings() -> None:
    several = {name: EnvironmentSettings(environment=name) for name in ("a", "b")}
    config = TrainConfig(environments=several)  # type: ignore[call-arg]  # the name follows from these
    rows = [
        {**one, **other}
        for one, other in zip(
            steps(prefix="episode/a/"), steps(prefix="episode/b/", illegal_actions=4.0, max_turns=3), strict=True
        )
    ]
    (warning,) = diagnose(config, rows, {"a: after training": replace(score(1.0), episodes=200)})
    assert (warning.environment, warning.name) == ("b", "illegal_answers")
    assert str(warning).startswith("b: 100% of the answers")


def test_groups_that_are_solved_are_none_to_worry_about() -> None:
    solved, failed, mixed = [1.0] * 4, [-1.0] * 4, [1.0, -1.0, 1.0, 1.0]
    row = steps(flat_groups=0.9, reward=0.5)
    assert found(row, rollouts=played(*[solved] * 8, failed, mixed)) == {}
    (text,) = found(row, rollouts=played(*[solved] * 3, *[failed] * 6, mixed)).values()
    assert text.startswith("In 60% of the groups of the last 10 steps all episodes got the same reward")
    assert "in another 30% all got the best reward, which is none to worry about: try" in text
    assert "--resample 2" in text
    assert "--sampler" not in text, "every group has a new task"


@pytest.mark.parametrize(("sampler", "is_named"), [(None, True), ({"kind": "uniform"}, False)])
def test_a_sampler_is_a_remedy_where_there_are_tasks_to_choose_from(sampler: Any, is_named: bool) -> None:
    config = TrainConfig(environment="catch", tasks=9, sampler=sampler)
    (warning,) = diagnose(config, steps(flat_groups=0.9, reward=0.5), {})
    assert ("--sampler curriculum, " in warning.text) is is_named


def test_what_is_best_is_known_of_other_players_too() -> None:
    same: dict[str, Any] = {"flat_groups": 1.0, "reward": 0.5, "best_reward": 0.5, "worst_reward": 0.5}
    scores = {BEFORE: score(0.4), SCRIPTED: score(1.0, 1.0)}
    assert found(steps(**same), scores, played([0.5] * 4)).keys() == {"flat_groups"}, "the scripted player gets more"
    assert found(steps(**{**same, "reward": 1.0, "best_reward": 1.0, "worst_reward": 1.0}), scores) == {}


def test_a_penalty_is_a_variance_of_what_is_learned_from() -> None:
    flat = played([0.0] * 4, [1.0] * 4)
    for note in flat[0]["episodes"][:2]:
        note["illegal_actions"] = 1
    row = steps(flat_groups=0.5, reward=0.5)
    assert found(row, rollouts=flat) == {}, "the group that has failed has some, so the flat one is the solved one"


def test_episodes_without_a_call_are_counted_over_all_steps() -> None:
    rows = [*steps(LAST_STEPS - 1), *steps(1, no_calls=1.0)]
    assert found(rows) == {}
    (text,) = found([*rows[:6], *steps(4, no_calls=1.0)]).values()
    assert text.startswith("In 40% of the episodes of the last 10 steps the model called no tool at all")


def test_a_headline_of_few_episodes_has_its_width() -> None:
    few = replace(score(*[0.0, 1.0] * 4), low=0.1, high=0.9)
    texts = {warning.name: warning.text for warning in diagnose(CONFIG, [], {BEFORE: score(-1.0), AFTER: few})}
    assert texts["few_episodes"].startswith(
        "The mean reward is of 8 episodes and one seed, with a 95% interval 0.8 wide: try a larger --eval-episodes"
    )
    enough = replace(few, episodes=30)
    assert "few_episodes" not in {warning.name for warning in diagnose(CONFIG, [], {AFTER: enough})}
