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
THREADS_VARIABLE = "OMP_NUM_THREADS"
"""Variable by which a user sets the threads of torch."""


def choose_sizes(
    config: TrainConfig, model: Mapping[str, int] | None, free_bytes: int, cores: int
) -> tuple[TrainConfig, str]:
    """Choose what the settings of a pretrained model leave open of micro_batch, gradient_checkpointing and threads.

    As many episodes are learned from at once, four at most, as fit into the free memory if all are as long as
    ``max_context`` allows. Activations are computed twice where not even one episode fits otherwise.

    Args:
        config: The settings of a run that begins.
        model: The sizes of its model, as `model_sizes` returns them; ``None`` where they are not known.
        free_bytes: Bytes of memory that are free: of the GPU where the model is on one.
        cores: Cores that the process may use.

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
