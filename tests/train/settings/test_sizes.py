"""Sizes that settings leave open, by model and machine."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.train.settings.config import TrainConfig
from openenv.train.settings.memory_use import training_bytes
from openenv.train.settings.sizes import THREADS_VARIABLE, choose_sizes

SMALL = {
    "parameters": 134_515_008,
    "hidden": 576,
    "layers": 30,
    "inner": 1536,
    "vocabulary": 49152,
    "cached": 384,
}
GB = 10**9


def chosen(free_gb: float, cores: int = 2, shape: dict[str, int] | None = SMALL, **given: Any) -> tuple[Any, ...]:
    config = TrainConfig(environment="catch", **{"model": "m", "max_context": 1024, **given})
    sized, reason = choose_sizes(config, shape, round(free_gb * GB), cores)
    return sized.micro_batch, sized.gradient_checkpointing, sized.threads, reason


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS_VARIABLE, raising=False)


def test_less_memory_is_fewer_episodes_at_once_and_then_activations_that_are_computed_twice() -> None:
    by_memory = [chosen(free)[:2] for free in (64, 10, 7, 6, 1)]
    assert by_memory == [(4, False), (2, False), (1, False), (1, True), (1, True)]
    assert chosen(64)[3].startswith("micro_batch 4, gradient_checkpointing off: at most ")
    assert chosen(64)[3].endswith("of 64.0 GB that are free; threads 1: 2 cores, one of them for other work")
    assert "episodes of 1024 tokens need 5.2 GB, and 1.0 GB are free; where" in chosen(1)[3]
    assert "lower --max-context or --rollouts" in chosen(1)[3]


def test_what_is_given_stays_and_the_rest_fits_it() -> None:
    assert chosen(1, micro_batch=8, gradient_checkpointing=False, threads=3) == (8, False, 3, "")
    assert chosen(64, micro_batch=8)[:2] == (8, False)
    assert chosen(10, micro_batch=8)[:2] == (8, True)
    assert chosen(64, gradient_checkpointing=True)[:2] == (4, True)
    assert chosen(1, gradient_checkpointing=False)[:2] == (1, False)
    assert chosen(64, threads=0)[2] == 0
    assert "micro_batch" not in chosen(64, micro_batch=8)[3]
    assert "threads" not in chosen(64, threads=0)[3]


@pytest.mark.parametrize(
    ("speed", "dtype"), [(0.025, "float32"), (1.1, "float32"), (1.2, "bfloat16"), (8.0, "bfloat16")]
)
def test_weights_have_the_numbers_that_the_machine_is_faster_with(speed: float, dtype: str) -> None:
    config = TrainConfig(environment="catch", model="m", dtype="auto", lora={"rank": 4})
    sized, reason = choose_sizes(config, SMALL, 64 * GB, 2, speed)
    assert sized.dtype == dtype
    assert reason.startswith(
        f"dtype {dtype}: this machine multiplies {speed:.2g} times as fast in bfloat16; micro_batch "
    )


def test_weights_that_are_all_learned_have_32_bits() -> None:
    sized, reason = choose_sizes(TrainConfig(environment="catch", model="m", dtype="auto"), SMALL, 64 * GB, 2, 8.0)
    assert sized.dtype == "float32"
    assert "dtype" not in reason


def test_numbers_that_are_set_stay_and_slow_ones_are_named() -> None:
    config = TrainConfig(environment="catch", model="m", dtype="bfloat16", lora={})
    slow, reason = choose_sizes(config, SMALL, 64 * GB, 2, 0.025)
    assert slow.dtype == "bfloat16"
    assert "dtype bfloat16, as set, though this machine multiplies 0.025 times as fast in bfloat16; auto is" in reason
    fast, reason = choose_sizes(config, SMALL, 64 * GB, 2, 2.0)
    assert fast.dtype == "bfloat16"
    assert "dtype" not in reason


def test_the_tiny_policys_settings_are_left_alone() -> None:
    assert chosen(64, model="tiny") == (None, False, 1, "")


def test_batches_divide_the_rollouts() -> None:
    assert chosen(64, rollouts=6, group_size=2)[0] == 2
    assert chosen(64, rollouts=9, group_size=3)[0] == 1


def test_a_model_of_unknown_sizes_is_learned_from_sparingly() -> None:
    *sizes, reason = chosen(64, shape=None, threads=1)
    assert sizes == [4, True, 1]
    assert reason.endswith("the sizes of the model are not known")


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 2), (16, 15)])
def test_a_core_is_left_for_other_work(cores: int, threads: int) -> None:
    assert chosen(64, cores)[2] == threads


@pytest.mark.parametrize(("value", "threads"), [("6", 6), ("2,4", 2), ("", 3), ("0", 3), ("many", 3)])
def test_the_variable_of_threads_wins(monkeypatch: pytest.MonkeyPatch, value: str, threads: int) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, value)
    assert chosen(64, cores=4)[2] == threads


@given(
    free=st.integers(1, 200 * GB),
    rollouts=st.integers(1, 32).map(lambda half: 2 * half),
    context=st.integers(16, 32768),
    layers=st.integers(1, 80),
    hidden=st.integers(16, 8192),
    vocabulary=st.integers(100, 300_000),
)
def test_what_fits_is_chosen_where_anything_fits(
    free: int, rollouts: int, context: int, layers: int, hidden: int, vocabulary: int
) -> None:
    shape = {
        "parameters": 12 * layers * hidden**2,
        "hidden": hidden,
        "layers": layers,
        "inner": 4 * hidden,
        "vocabulary": vocabulary,
        "cached": 2 * hidden,
    }
    config = TrainConfig(environment="catch", model="m", rollouts=rollouts, group_size=2, max_context=context)
    sized, _ = choose_sizes(config, shape, free, 2)
    assert sized.micro_batch is not None
    assert rollouts % sized.micro_batch == 0
    use = training_bytes(config, shape, sized.micro_batch, checkpointing=bool(sized.gradient_checkpointing))
    least = training_bytes(config, shape, 1, checkpointing=True)
    assert use <= free or (least > free and (sized.micro_batch, sized.gradient_checkpointing) == (1, True))
