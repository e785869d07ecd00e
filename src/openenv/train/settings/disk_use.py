"""Bytes that a run writes: checkpoints, of which some are kept, and models."""

from openenv.train.settings.config import TrainConfig

__all__ = ["checkpoint_bytes", "gigabytes", "run_bytes"]

_WEIGHT_BYTES, _OPTIMISER_BYTES = 4, 8


def checkpoint_bytes(learned: int) -> int:
    """Return the bytes of a checkpoint: the learned weights, with two averages of AdamW for each."""
    return learned * (_WEIGHT_BYTES + _OPTIMISER_BYTES)


def run_bytes(config: TrainConfig, parameters: int, learned: int) -> int:
    """Return the bytes of a run without its records of episodes: the checkpoints that are there at once, and models.

    Example:
        >>> run_bytes(TrainConfig(environment="catch"), parameters=1000, learned=1000)
        40000
    """
    written = -(-config.steps // config.checkpoint_every) if config.grpo else 0
    # The oldest goes after the newest was written.
    checkpoints = checkpoint_bytes(learned) * min(config.checkpoints_kept + 1, written)
    # At the end, after a warm-up, and the best of evaluations, of which the one before goes after it was written.
    models = 1 + (config.sft is not None)
    best = (parameters if config.lora is None else learned) * min(2, len(config.evaluated_steps))
    return checkpoints + _WEIGHT_BYTES * (parameters * models + best)


def gigabytes(count: float) -> str:
    """Return a number of bytes in words.

    Example:
        >>> gigabytes(1_650_000_000), gigabytes(36_000)
        ('1.6 GB', '0.1 GB')
    """
    return f"{max(count, 1e8) / 1e9:,.1f} GB"
