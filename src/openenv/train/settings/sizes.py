"""Sizes of a training that its settings leave open, chosen by model and machine."""

import os
from collections.abc import Mapping
from typing import Any

from openenv.train.settings.config import TrainConfig
from openenv.train.settings.disk_use import gigabytes
from openenv.train.settings.memory_use import training_bytes

__all__ = ["THREADS_VARIABLE", "choose_sizes"]

# Larger batches are hardly faster on a CPU, and episodes are padded to the longest of theirs.
_MICRO_BATCHES = (4, 2, 1)
# Times as fast from which bfloat16 is taken; less is within the noise of a measurement.
_FASTER = 1.2
THREADS_VARIABLE = "OMP_NUM_THREADS"
"""Variable by which a user sets the threads of torch."""


def choose_sizes(
    config: TrainConfig, model: Mapping[str, int] | None, free_bytes: int, cores: int, bfloat16_speed: float = 1.0
) -> tuple[TrainConfig, str]:
    """Choose what settings leave open of dtype, micro_batch, gradient_checkpointing and threads.

    As many episodes are learned from at once, four at most, as fit into the free memory if all are as long as
    ``max_context`` allows. Activations are computed twice where not even one episode fits otherwise. Weights have 16
    bits where the machine is faster with them, and additions of 32 bits are learned beside them.

    Args:
        config: The settings of a run that begins.
        model: The sizes of its model, as `model_sizes` returns them; ``None`` where they are not known.
        free_bytes: Bytes of memory that are free: of the GPU where the model is on one.
        cores: Cores that the process may use.
        bfloat16_speed: How many times as fast the machine multiplies in bfloat16 as in float32.

    Returns:
        The settings with nothing left open; and what was chosen, and why, in a line, which is empty where nothing was.

    Example:
        >>> small = {"parameters": 10_000, "hidden": 32, "layers": 1, "inner": 64, "vocabulary": 100, "cached": 64}
        >>> config = TrainConfig(environment="catch", model="m", threads=1)
        >>> chosen, reason = choose_sizes(config, small, free_bytes=2 * 10**9, cores=2)
        >>> chosen.micro_batch, chosen.gradient_checkpointing
        (4, False)
        >>> reason
        'micro_batch 4, gradient_checkpointing off: at most 0.9 GB of 2.0 GB that are free'
    """
    if config.is_tiny:
        return config, ""
    chosen: dict[str, Any] = {}
    reasons: list[str] = []
    if config.dtype != "float32":
        config, reason = _with_dtype(config, bfloat16_speed)
        reasons += [reason] if reason else []
    if config.micro_batch is None or config.gradient_checkpointing is None:
        chosen, reason = _memory_sizes(config, model, free_bytes)
        words = [f"micro_batch {chosen['micro_batch']}"] if config.micro_batch is None else []
        if config.gradient_checkpointing is None:
            words.append(f"gradient_checkpointing {('off', 'on')[chosen['gradient_checkpointing']]}")
        reasons.append(f"{', '.join(words)}: {reason}")
    if config.threads is None:
        chosen["threads"], reason = _threads(cores)
        reasons.append(f"threads {chosen['threads']}: {reason}")
    return config.model_copy(update=chosen), "; ".join(reasons)


def _with_dtype(config: TrainConfig, speed: float) -> tuple[TrainConfig, str]:
    """Return the settings with numbers that have a size, and why that one; or why a given one is slow."""
    if config.lora is None:
        return config.model_copy(update={"dtype": "float32"}), ""
    compared = f"this machine multiplies {speed:.2g} times as fast in bfloat16"
    if config.dtype == "auto":
        dtype = "bfloat16" if speed >= _FASTER else "float32"
        return config.model_copy(update={"dtype": dtype}), f"dtype {dtype}: {compared}"
    slow = f"dtype {config.dtype}, as set, though {compared}; auto is faster"
    return config, slow if speed * _FASTER < 1 else ""


def _memory_sizes(config: TrainConfig, model: Mapping[str, int] | None, free: int) -> tuple[dict[str, Any], str]:
    """Return ``micro_batch`` and ``gradient_checkpointing``, and why they are chosen."""
    if config.micro_batch is None:
        batches = [size for size in _MICRO_BATCHES if config.rollouts % size == 0]
    else:
        batches = [config.micro_batch]
    checkpointing = (False, True) if config.gradient_checkpointing is None else (config.gradient_checkpointing,)
    options = [{"micro_batch": size, "gradient_checkpointing": twice} for twice in checkpointing for size in batches]
    if model is None:
        return {**options[0], "gradient_checkpointing": checkpointing[-1]}, "the sizes of the model are not known"
    uses = [
        training_bytes(config, model, option["micro_batch"], checkpointing=bool(option["gradient_checkpointing"]))
        for option in options
    ]
    fitting = next((number for number, use in enumerate(uses) if use <= free), None)
    if fitting is not None:
        return options[fitting], f"at most {gigabytes(uses[fitting])} of {gigabytes(free)} that are free"
    return options[-1], (
        f"episodes of {config.max_context} tokens need {gigabytes(uses[-1])}, and {gigabytes(free)} are free; where "
        "they are so long, lower --max-context or --rollouts"
    )


def _threads(cores: int) -> tuple[int, str]:
    """Return the threads of torch, and why so many."""
    given = os.environ.get(THREADS_VARIABLE, "").partition(",")[0].strip()
    if given.isdecimal() and int(given):
        return int(given), THREADS_VARIABLE
    # Threads wait for each other, so that one which shares its core with a server slows all of them down.
    return max(1, cores - 1), f"{cores} core{'s' * (cores > 1)}, one of them for other work"
