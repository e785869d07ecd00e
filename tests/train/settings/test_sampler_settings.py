"""Section ``sampler`` of a run's settings, and its options."""

from pathlib import Path
from typing import Any

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.train.samplers import CurriculumSampler, DifficultyPoolSampler, SequentialSampler, UniformSampler
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.sampler_settings import SamplerSettings

SEEDS = [{"seed": seed} for seed in range(6)]
LEVELS = [{**task, "difficulty": task["seed"] % 2, "group": task["seed"] % 3} for task in SEEDS]


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [
        ("sequential", SequentialSampler),
        ("uniform", UniformSampler),
        ("curriculum", CurriculumSampler),
        ("pools", DifficultyPoolSampler),
    ],
)
def test_each_kind_is_a_sampler(kind: Any, sampler: type) -> None:
    made = SamplerSettings(kind=kind).make(LEVELS, group_size=4, seed=1)
    assert type(made) is sampler
    assert len(made.sample(3)) == 3


@pytest.mark.parametrize(
    ("settings", "tasks", "keys"),
    [
        ({}, LEVELS, {"0", "1"}),
        ({"key": "group"}, LEVELS, {"0", "1", "2"}),
        ({}, SEEDS, {f'{{"seed": {seed}}}' for seed in range(6)}),
        ({"kind": "pools"}, LEVELS, {"0", "1"}),
        ({"kind": "uniform"}, LEVELS, {""}),
    ],
)
def test_the_key_is_difficulty_where_tasks_have_it(settings: Any, tasks: Any, keys: set[str]) -> None:
    sampler: Any = SamplerSettings(**settings).make(tasks, group_size=4, seed=1)
    assert set(sampler.success_rates) == keys


def test_settings_reach_the_sampler() -> None:
    settings = SamplerSettings(success_threshold=0.5, decay=0.5, cost="tokens")
    sampler: Any = settings.make(LEVELS, group_size=4, seed=1)
    for _ in range(2):
        sampler.update(LEVELS[0], [0.5], [10.0])
    assert sampler.success_rates["0"] == pytest.approx((1.5 + 0.5) / 2.5)
    with pytest.raises(ConfigurationError, match="the tokens of each episode"):
        sampler.update(LEVELS[0], [0.5])


def test_the_run_s_seed_decides() -> None:
    samplers = [SamplerSettings(kind="uniform").make(SEEDS, group_size=4, seed=seed) for seed in (1, 1, 2)]
    first, same, other = [sampler.sample(6) for sampler in samplers]
    assert first == same
    assert first != other


def test_the_section_survives_the_file_and_options_win_over_it(tmp_path: Path) -> None:
    config = TrainConfig(environment="catch", tasks=9, sampler=SamplerSettings(kind="pools", key="group"))
    config.save(tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config
    other = load_config(tmp_path / "config.yaml", sampler={"kind": "uniform"}).sampler
    assert other == SamplerSettings(kind="uniform", key="group")


STAGES = [{"steps": 1, "reset": {"level": 1}}]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sampler": {}}, "a sampler needs tasks to choose from: set tasks to a number of seeds, a split or a file"),
        (
            {"sampler": {}, "tasks": 9, "curriculum": STAGES},
            r"expected stages \(curriculum\) or a sampler, .* got both",
        ),
        (
            {"sampler": {"kind": "best"}, "tasks": 9},
            r"sampler\.kind: Input should be 'sequential', 'uniform'.* got 'best'",
        ),
        ({"sampler": {"keys": "x"}, "tasks": 9}, r"no setting 'sampler\.keys'; did you mean 'sampler\.key'"),
        ({"sampler": {"eps": 0}, "tasks": 9}, r"sampler\.eps: .*greater than 0"),
        (
            {"environments": {"a": {"environment": "catch"}}, "environment": "a", "sampler": {}},
            "a sampler needs tasks to choose from",
        ),
    ],
)
def test_faults_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_config(**{"environment": "catch", **fields})
