"""Samplers of tasks: what they draw, what they learn from rewards, and what a failure is to them."""

import json
import math
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.exceptions import ConfigurationError
from openenv.train.samplers import (
    CurriculumSampler,
    DifficultyPoolSampler,
    SamplerCounters,
    SequentialSampler,
    TaskSampler,
    UniformSampler,
    is_flat,
)

GROUP = 8
# Shares of successes from trivial to impossible: most tasks teach nothing, as most of a data set's do.
SHARES = [1.0, 1.0, 1.0, 0.98, 0.5, 0.1, 0.0, 0.0, 0.0, 0.0]
TASKS = [{"seed": seed, "difficulty": seed % len(SHARES)} for seed in range(200)]


def curriculum(tasks: Any = TASKS, **settings: Any) -> CurriculumSampler:
    return CurriculumSampler(tasks, GROUP, **settings)


@pytest.mark.parametrize(
    ("rewards", "flat"),
    [([1.0, 1.0], True), ([0.1 + 0.2, 0.3], True), ([1.0, None], True), ([None, None], True), ([0.0, 1.0], False)],
)
def test_a_group_without_variance(rewards: list[float | None], flat: bool) -> None:
    assert is_flat(rewards) is flat


def counters_at(sampler: TaskSampler, signal_groups: int, seed: int) -> SamplerCounters:
    """Play groups with the shares of successes until so many had a signal."""
    random = Random(seed)
    while sampler.counters.signal_groups < signal_groups:
        for task in sampler.sample(4):
            share = SHARES[task["difficulty"]]
            sampler.update(task, [float(random.random() < share) for _ in range(GROUP)])
    return sampler.counters


@pytest.mark.parametrize("seed", range(5))
def test_a_curriculum_has_as_many_signal_groups_with_half_of_the_episodes(seed: int) -> None:
    uniform = counters_at(UniformSampler(TASKS, seed), 200, seed)
    learned = counters_at(curriculum(rng_seed=seed), 200, seed)
    assert learned.episodes <= uniform.episodes / 2
    assert learned.signal_groups_per_episode >= 2 * uniform.signal_groups_per_episode
    assert learned.zero_signal_fraction < uniform.zero_signal_fraction


def test_pools_are_drawn_by_their_weights_and_tasks_change_pools() -> None:
    tasks = [{"seed": seed} for seed in range(30)]
    sampler = DifficultyPoolSampler(tasks, weights=(0.1, 0.8, 0.1))
    for task in tasks:  # ten are never solved, ten half of the time, and ten always
        for _ in range(4):
            sampler.update(task, [[0.0] * 8, [0.0, 1.0] * 4, [1.0] * 8][task["seed"] % 3])
    drawn = Counter(task["seed"] % 3 for _ in range(100) for task in sampler.sample(10))
    assert drawn[1] / 1000 == pytest.approx(0.8, abs=0.05)
    assert drawn[0] / 1000 == pytest.approx(0.1, abs=0.05)
    for _ in range(20):
        sampler.update(tasks[0], [1.0] * 8)
    assert sampler.success_rates['{"seed": 0}'] > 0.9, "what was known before counts less and less"


def test_tasks_come_in_order_for_each_seed_and_over_and_over() -> None:
    sampler = SequentialSampler([{"level": 1}, {"level": 2}], seeds=[7, 8])
    pairs = [(task["level"], task["seed"]) for task in (*sampler.sample(3), *sampler.sample(2))]
    assert pairs == [(1, 7), (2, 7), (1, 8), (2, 8), (1, 7)]
    assert SequentialSampler({"level": level} for level in range(2)).sample(3) == [
        {"level": 0},
        {"level": 1},
        {"level": 0},
    ]


def test_all_tasks_are_drawn_alike_or_all_groups() -> None:
    tasks = [{"seed": seed, "group": "rare" if seed < 2 else "frequent"} for seed in range(20)]
    assert sorted(task["seed"] for task in UniformSampler(tasks).sample(20)) == list(range(20))
    drawn = Counter(task["group"] for task in UniformSampler(tasks, key="group").sample(1000))
    assert drawn["rare"] == pytest.approx(500, abs=60)
    functional = UniformSampler(tasks, key=lambda task: task["seed"] < 2)
    assert sum(task["seed"] < 2 for task in functional.sample(1000)) == pytest.approx(500, abs=60)


def test_another_seed_draws_others_and_the_same_seed_the_same() -> None:
    assert UniformSampler(TASKS, 1).sample(9) == UniformSampler(TASKS, 1).sample(9)
    assert UniformSampler(TASKS, 1).sample(9) != UniformSampler(TASKS, 2).sample(9)
    sampler = UniformSampler(TASKS, 1)
    assert sampler.sample(9) != sampler.sample(9)


def test_what_was_never_played_is_held_for_half_solved() -> None:
    sampler = curriculum()
    assert set(sampler.success_rates.values()) == {0.5}
    for _ in range(6):
        for difficulty in range(9):
            sampler.update({"difficulty": difficulty}, [0.0] * GROUP)
    drawn = Counter(task["difficulty"] for task in sampler.sample(900))
    assert drawn[9] > 4 * max(drawn[difficulty] for difficulty in range(9))
    assert set(drawn) == set(range(10)), "what has been impossible so far is tried again"


def test_what_becomes_possible_is_found_again() -> None:
    sampler = curriculum()
    for _ in range(50):
        sampler.update({"difficulty": 3}, [0.0] * GROUP)
    before = sampler.success_rates["3"]
    for _ in range(10):
        sampler.update({"difficulty": 3}, [0.0, 1.0] * (GROUP // 2))
    assert before < 0.01
    assert sampler.success_rates["3"] > 0.25


def test_a_success_is_a_reward_from_the_threshold_on() -> None:
    strict, lenient = curriculum(), curriculum(success_threshold=0.5)
    for sampler in (strict, lenient):
        sampler.update({"difficulty": 1}, [0.6 + 0.3 + 0.1, 0.5, 0.25, 0.0])
    assert strict.success_rates["1"] == pytest.approx((1 + 0.5) / 5), "but for rounding"
    assert lenient.success_rates["1"] == pytest.approx((2 + 0.5) / 5)


@pytest.mark.parametrize("failure", [None, math.nan, math.inf, -math.inf])
def test_a_failure_is_no_reward_of_0(failure: float | None) -> None:
    """Whatever failed among the episodes, all else is as if they had not been."""
    samplers = [curriculum(), DifficultyPoolSampler(TASKS), UniformSampler(TASKS), SequentialSampler(TASKS)]
    for sampler in samplers:
        undisturbed = type(sampler)(TASKS, **({"group_size": GROUP} if isinstance(sampler, CurriculumSampler) else {}))
        undisturbed.update(TASKS[0], [1.0, 0.0], [3.0, 4.0])
        sampler.update(TASKS[0], [1.0, failure, 0.0, failure], [3.0, 100.0, 4.0, 100.0])
        sampler.update(TASKS[1], [failure] * 3)
        state = sampler.state_dict()
        assert state["counters"].pop("failed") == 5
        expected = undisturbed.state_dict()
        assert expected["counters"].pop("failed") == 0
        assert state == expected
        assert sampler.counters.groups == 1


def test_tasks_that_cost_less_are_drawn_more_often() -> None:
    tasks = [{"difficulty": difficulty} for difficulty in (0, 1)]

    def share_of_the_cheap(sampler: TaskSampler) -> float:
        for task in tasks:
            tokens = 10.0 if task["difficulty"] == 0 else 90.0
            sampler.update(task, [0.0, 1.0] * 4, [tokens] * GROUP)
        drawn = Counter(task["difficulty"] for task in sampler.sample(2000))
        return drawn[0] / 2000

    assert share_of_the_cheap(curriculum(tasks)) == pytest.approx(0.5, abs=0.05)
    assert share_of_the_cheap(curriculum(tasks, cost="tokens")) == pytest.approx(0.9, abs=0.03)
    priced = curriculum(tasks, cost=lambda task: 1.0 + 3 * task["difficulty"])
    assert share_of_the_cheap(priced) == pytest.approx(0.8, abs=0.04)


def test_a_key_whose_cost_is_unknown_costs_as_the_others() -> None:
    sampler = curriculum([{"difficulty": difficulty} for difficulty in (0, 1)], cost="tokens")
    sampler.update({"difficulty": 0}, [0.0, 1.0] * 4, [0.0] * GROUP)
    drawn = Counter(task["difficulty"] for task in sampler.sample(1000))
    assert drawn[1] == pytest.approx(500, abs=60)


def test_tasks_without_a_field_in_common_are_measured_each_by_itself() -> None:
    named = [{"id": "a", "seed": 1}, {"id": "b", "seed": 2}]
    assert list(curriculum(named, key=None).success_rates) == ["a", "b"]
    sampler = curriculum([{"seed": 1}, {"seed": 2}], key=None)
    sampler.update({"seed": 2}, [1.0] * GROUP)
    assert sampler.success_rates['{"seed": 1}'] == 0.5
    assert sampler.success_rates['{"seed": 2}'] > 0.9


def test_counters() -> None:
    sampler = UniformSampler(TASKS)
    figures = sampler.counters.figures()
    assert set(figures.values()) == {0}, "before the first group"
    sampler.update(TASKS[0], [0.0, 1.0], [2.0, 4.0])
    sampler.update(TASKS[0], [1.0, 1.0])
    sampler.update(TASKS[0], [None, 1.0])
    counters = sampler.counters
    assert (counters.groups, counters.signal_groups, counters.episodes) == (3, 1, 5)
    assert (counters.cost, counters.failed) == (9.0, 1)
    assert counters.figures() == {
        "groups": 3,
        "signal_groups": 1,
        "episodes": 5,
        "cost": 9.0,
        "failed": 1,
        "signal_groups_per_episode": 1 / 5,
        "signal_groups_per_cost": 1 / 9,
        "zero_signal_fraction": pytest.approx(2 / 3),
    }


MAKERS: list[Callable[[], Any]] = [
    lambda: SequentialSampler(TASKS, [1, 2]),
    lambda: UniformSampler(TASKS, 3, "difficulty"),
    lambda: curriculum(cost="tokens"),
    lambda: curriculum(key=None, rng_seed=9),
    lambda: DifficultyPoolSampler(TASKS),
]
groups = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=1, max_size=4), min_size=1, max_size=4)


@pytest.mark.parametrize("make", MAKERS)
@given(steps=st.lists(groups, max_size=4))
def test_a_state_draws_and_learns_as_if_nothing_had_been_interrupted(
    make: Callable[[], Any], steps: list[list[list[float | None]]]
) -> None:
    whole = make()
    for step in steps:
        for task, rewards in zip(whole.sample(len(step)), step, strict=True):
            whole.update(task, rewards, [2.0] * len(rewards))
    resumed = make()
    resumed.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    for _ in range(3):
        tasks = whole.sample(5)
        assert resumed.sample(5) == tasks
        for sampler in (whole, resumed):
            sampler.update(tasks[0], [1.0, 0.0], [1.0, 2.0])
    assert resumed.state_dict() == whole.state_dict()
    assert resumed.counters == whole.counters


def test_the_state_of_another_sampler_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"the state of a CurriculumSampler, got that of 'UniformSampler'\. Con"
    ):
        curriculum().load_state_dict(UniformSampler(TASKS).state_dict())


def test_a_drawn_task_is_the_caller_s_own() -> None:
    tasks = [{"seed": 1}]
    for sampler in (UniformSampler(tasks), SequentialSampler(tasks)):
        sampler.sample(1)[0]["seed"] = 2
    assert tasks == [{"seed": 1}]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UniformSampler([]), "at least one task to sample, got none"),
        (lambda: SequentialSampler(()), "at least one task to sample, got none"),
        (lambda: curriculum([{"seed": 1}]), "'difficulty' in each task, .*; got one with seed. Add it .* key to None"),
        (lambda: UniformSampler([{"group": 1}, {}], key="group"), "'group' in each task, .*; got one with nothing"),
        (lambda: CurriculumSampler(TASKS, 1), "a group_size of 2 or more, got 1"),
        (lambda: curriculum(eps=0.0), "a finite eps above 0, got 0.0"),
        (lambda: curriculum(decay=1.5), "a decay above 0 and of 1 at most, got 1.5"),
        (lambda: curriculum(cost="time"), "a cost of 'episodes', 'tokens', or a function, got 'time'"),
        (lambda: curriculum(cost=lambda task: -1.0), "a finite cost above 0 for each task, got -1.0"),
        (lambda: curriculum(cost="tokens").update(TASKS[0], [1.0]), "the tokens of each episode as costs"),
        (lambda: curriculum().update(TASKS[0], [1.0], []), "a cost for each of 1 rewards, got 0 costs"),
        (lambda: curriculum().update({"difficulty": 99}, [1.0]), r"a task that .* drawn, got {'difficulty': 99}"),
        (lambda: DifficultyPoolSampler(TASKS, thresholds=(0.8, 0.2)), "two thresholds .* in ascending order, got"),
        (lambda: DifficultyPoolSampler(TASKS, weights=(0.0, 1.0, 1.0)), "three finite weights above 0, got"),
    ],
)
def test_faults_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
