"""Sampling settings of an engine whose tokens are trained on."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeGuard

NON_POLICY_SAMPLING: Mapping[str, float] = MappingProxyType(
    {
        "top_p": 1,
        "top_k": -1,
        "min_p": 0,
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "repetition_penalty": 1,
    }
)
"""Settings that cut or shift the policy's distribution, each with the value that leaves it as it is."""

# Engines read both as the whole vocabulary.
_NEUTRAL: Mapping[str, tuple[float, ...]] = {
    **{name: (value,) for name, value in NON_POLICY_SAMPLING.items()},
    "top_k": (-1, 0),
}


def training_sampling(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sampling settings by which an engine samples from the policy that is trained.

    Log-probabilities of tokens that were sampled from a cut or shifted distribution are not those of the policy, so
    that importance ratios would be wrong.

    Args:
        sampling: A finite ``temperature`` above 0 and, where named, other settings at the values that cut nothing.

    Returns:
        The temperature, and all of ``NON_POLICY_SAMPLING``, so that no default of the engine counts.

    Raises:
        ValueError: The temperature is missing or not above 0, a setting cuts or shifts, or is not known.

    Example:
        >>> training_sampling({"temperature": 0.7, "top_k": 0})["top_k"]
        -1
    """
    temperature = sampling.get("temperature")
    if not _is_number(temperature) or not math.isfinite(temperature) or temperature <= 0:
        raise ValueError(f"training sampling needs a finite temperature above 0, got {temperature!r}")
    for name, value in sampling.items():
        if name == "temperature":
            continue
        if name not in _NEUTRAL:
            known = ", ".join(["temperature", *_NEUTRAL])
            raise ValueError(f"training sampling has the settings {known}; got {name!r}")
        if not _is_number(value) or value not in _NEUTRAL[name]:
            raise ValueError(
                f"training sampling needs {name}={NON_POLICY_SAMPLING[name]}, got {value!r}: tokens of a distribution "
                "that was cut or shifted have other probabilities than those of the policy"
            )
    return {"temperature": float(temperature), **NON_POLICY_SAMPLING}


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
