"""Seeds of every random choice of a run, derived from one number: the run's seed."""

import random
from collections.abc import Iterable

__all__ = ["derived_seed", "evaluation_draws", "evaluation_seeds", "training_seeds"]

# Evaluation takes its seeds from the upper half of 31 bits and training from the lower half, so they never meet.
_HALF = 2**30


def derived_seed(seed: int, *purpose: str | int) -> int:
    """Make a seed below 2**30 for one purpose, from the run's seed; other words, other seeds.

    Example:
        >>> derived_seed(1, "sampling", 7) == derived_seed(1, "sampling", 7)
        True
    """
    return _source(seed, *purpose).randrange(_HALF)


def training_seeds(seed: int, count: int) -> list[int]:
    """Make the seeds of the training's groups of episodes, in order."""
    source = _source(seed, "training episodes")
    return [source.randrange(_HALF) for _ in range(count)]


def evaluation_seeds(seed: int, count: int) -> list[int]:
    """Make the seeds of evaluation episodes; none is ever a training seed."""
    source = _source(seed, "evaluation episodes")
    return [_HALF + source.randrange(_HALF) for _ in range(count)]


def evaluation_draws(seed: int, numbers: Iterable[int]) -> list[random.Random]:
    """Make sources of random numbers for a model's tokens in evaluation episodes, one for each episode's number."""
    return [_source(seed, "evaluation", number) for number in numbers]


def _source(seed: int, *purpose: str | int) -> random.Random:
    return random.Random(f"openenv {seed} {' '.join(map(str, purpose))}")  # noqa: S311  # repeatable is what is wanted
