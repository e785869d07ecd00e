"""Estimates of pass@k and pass^k: the probabilities that one of ``k`` attempts at a task succeeds, and that all do."""

from math import prod

__all__ = ["pass_at_k", "pass_hat_k"]


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Estimate pass@k of one task, without bias, from more attempts than ``k``.

    Of all ways to draw ``k`` of the attempts it is the share that has a success among them (Chen et al., 2021,
    https://arxiv.org/abs/2107.03374).

    Args:
        attempts: How often the task was tried.
        successes: How many of these attempts succeeded.
        k: How many attempts are granted, from 1 to ``attempts``.

    Returns:
        The estimate, from 0 to 1.

    Raises:
        ValueError: The numbers can't be.

    Example:
        >>> pass_at_k(attempts=4, successes=1, k=1), pass_at_k(attempts=4, successes=1, k=2)
        (0.25, 0.5)
    """
    if not 1 <= k <= attempts or not 0 <= successes <= attempts:
        raise ValueError(
            f"expected k from 1 to the number of attempts and no more successes than attempts; "
            f"got k={k}, attempts={attempts}, successes={successes}"
        )
    failures = attempts - successes
    if failures < k:
        return 1.0
    # The binomials' quotient factor by factor, since the binomials themselves soon exceed a float.
    return 1.0 - prod((failures - drawn) / (attempts - drawn) for drawn in range(k))


def pass_hat_k(attempts: int, successes: int, k: int) -> float:
    """Estimate pass^k of one task, without bias: the probability that all of ``k`` attempts succeed.

    Of all ways to draw ``k`` of the attempts it is the share that has no failure among them (Yao et al., 2024,
    https://arxiv.org/abs/2406.12045). An attempt in which the environment or the model's server failed is none.

    Args:
        attempts: How often the task was tried.
        successes: How many of these attempts succeeded.
        k: How many attempts have to succeed, from 1 to ``attempts``.

    Returns:
        The estimate, from 0 to 1.

    Raises:
        ValueError: The numbers can't be.

    Example:
        >>> pass_hat_k(attempts=4, successes=3, k=1), pass_hat_k(attempts=4, successes=3, k=2)
        (0.75, 0.5)
    """
    return 1.0 - pass_at_k(attempts, attempts - successes, k)
