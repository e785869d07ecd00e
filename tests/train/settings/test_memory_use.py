"""Estimates of a training's memory, beside what was measured."""

from typing import Any

import pytest

from openenv.train.settings.config import TrainConfig
from openenv.train.settings.memory_use import learned_weights, model_sizes, state_bytes, training_bytes

SMOLLM2 = {
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
}
SMOLLM2_PARAMETERS = 134_515_008
QWEN3_TEXTS = {"hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 672, "vocab_size": 151936}
QWEN3_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64}

# Peak of a process in two optimiser steps of GRPO with one thread of torch, in MiB.
MEASURED: list[tuple[dict[str, int], int, dict[str, Any], int, int, bool, int]] = [
    (SMOLLM2, SMOLLM2_PARAMETERS, {}, 4, 128, False, 3596),
    (SMOLLM2, SMOLLM2_PARAMETERS, {}, 2, 512, False, 5001),
    (SMOLLM2, SMOLLM2_PARAMETERS, {}, 2, 512, True, 3700),
    (SMOLLM2, SMOLLM2_PARAMETERS, {}, 1, 1024, True, 4250),
    (SMOLLM2, SMOLLM2_PARAMETERS, {"lora": {}}, 4, 128, False, 2657),
    ({**QWEN3_TEXTS, **QWEN3_HEADS}, 41_617_664, {}, 4, 256, False, 2384),
    ({**QWEN3_TEXTS, **QWEN3_HEADS, "vocab_size": 49152}, 15_304_960, {}, 1, 2048, False, 3187),
]


@pytest.mark.parametrize(("sizes", "parameters", "given", "episodes", "length", "checkpointing", "mib"), MEASURED)
def test_what_was_measured_is_below_the_estimate_and_not_far_below(
    sizes: dict[str, Any],
    parameters: int,
    given: dict[str, Any],
    episodes: int,
    length: int,
    checkpointing: bool,
    mib: int,
) -> None:
    config = TrainConfig(environment="catch", model="m", rollouts=4, group_size=2, max_context=length, **given)
    shape = model_sizes(sizes, parameters)
    assert shape is not None
    estimate = training_bytes(config, shape, episodes, checkpointing=checkpointing)
    assert mib * 2**20 < estimate < 1.5 * mib * 2**20


def test_sizes_are_read_where_configurations_have_them() -> None:
    shape = model_sizes(SMOLLM2, SMOLLM2_PARAMETERS)
    assert shape == {
        "parameters": SMOLLM2_PARAMETERS,
        "hidden": 576,
        "layers": 30,
        "inner": 1536,
        "vocabulary": 49152,
        "cached": 384,
    }
    assert model_sizes({"model_type": "vision", "text_config": SMOLLM2}, SMOLLM2_PARAMETERS) == shape
    assert model_sizes({"hidden_size": 576, "vocab_size": 49152}, SMOLLM2_PARAMETERS) is None


def test_weights_that_no_file_shows_are_estimated() -> None:
    shape = model_sizes(SMOLLM2, None)
    assert shape is not None
    # Input and output share their weights in this model, which the estimate counts twice.
    assert SMOLLM2_PARAMETERS < shape["parameters"] < 1.25 * SMOLLM2_PARAMETERS
    bare = model_sizes({"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100}, None)
    assert bare is not None
    assert (bare["inner"], bare["cached"]) == (256, 128)


def test_additions_need_less_than_all_weights_and_a_reference_needs_more() -> None:
    settings: list[dict[str, Any]] = [{}, {"lora": {}}, {"beta": 0.1}]
    whole, additions, beside = (TrainConfig(environment="catch", model="m", **given) for given in settings)
    assert learned_weights(additions, 10**9) < learned_weights(whole, 10**9) == 10**9
    assert state_bytes(additions, 10**9) < state_bytes(whole, 10**9) < state_bytes(beside, 10**9)


def test_episodes_that_another_program_writes_need_no_memory_here() -> None:
    shape = model_sizes(SMOLLM2, SMOLLM2_PARAMETERS)
    assert shape is not None
    here, elsewhere = (
        TrainConfig(environment="catch", model="m", rollouts=256, vllm=vllm)
        for vllm in (None, {"mode": "server", "server_base_url": "http://127.0.0.1:1"})
    )
    assert training_bytes(elsewhere, shape, 1, checkpointing=True) < training_bytes(here, shape, 1, checkpointing=True)


def test_weights_of_16_bits_take_half_of_those_of_32() -> None:
    wide, narrow = (
        state_bytes(TrainConfig(environment="catch", model="m", lora={}, dtype=dtype), SMOLLM2_PARAMETERS)
        for dtype in ("float32", "bfloat16")
    )
    assert wide - narrow == 2 * SMOLLM2_PARAMETERS
