"""Infos of environments as JSON and back.

NumPy's arrays go as lists, NaN as null and an infinite number as the text ``Infinity`` or ``-Infinity``. So that a
Gymnasium client gets them as they were, the entry ``numpy`` lists where arrays and such numbers stood, and of what
type; a reader of the finite numbers alone can pass over it.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

__all__ = ["ARRAYS", "plain_info", "restored_info"]

ARRAYS = "numpy"
"""Entry that lists the values which were arrays or no finite numbers."""

_FLOAT = {"dtype": "float"}


def plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Write an info as JSON values.

    Returns:
        The same with lists for arrays, Python's numbers for NumPy's, and text for what has no form in JSON; null for
        NaN.

    Example:
        >>> plain_info({"mask": np.array([1, 0], np.int8), "prob": np.float64(0.5)})
        {'mask': [1, 0], 'prob': 0.5, 'numpy': {'/mask': {'dtype': 'int8', 'shape': [2]}}}
    """
    arrays: dict[str, Any] = {}
    plain = {str(name): _plain(value, f"/{name}", arrays) for name, value in info.items()}
    return {**plain, ARRAYS: arrays} if arrays else plain


def restored_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Make arrays and numbers again of the values that were arrays and numbers."""
    arrays = info.get(ARRAYS)
    if not isinstance(arrays, Mapping):
        return dict(info)
    rest = {name: value for name, value in info.items() if name != ARRAYS}
    return {name: _restored(value, f"/{name}", arrays) for name, value in rest.items()}


def _plain(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[path] = {"dtype": value.dtype.name, "shape": list(value.shape)}
        return _finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        arrays[path] = _FLOAT
        return _finite(float(value))
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist(), path, arrays)
    if isinstance(value, Mapping):
        return {str(name): _plain(part, f"{path}/{name}", arrays) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{path}/{index}", arrays) for index, part in enumerate(value)]
    return to_jsonable_python(value, fallback=str)


def _finite(value: Any) -> Any:
    """Write numbers that JSON has no form for, at any depth of lists, so that ``float`` and NumPy read them again."""
    if isinstance(value, list):
        return [_finite(part) for part in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _restored(value: Any, path: str, arrays: Mapping[str, Any]) -> Any:
    if arrays.get(path) == _FLOAT:
        return math.nan if value is None else float(value)
    if path in arrays:
        return np.array(value, arrays[path]["dtype"]).reshape(arrays[path]["shape"])
    if isinstance(value, Mapping):
        return {name: _restored(part, f"{path}/{name}", arrays) for name, part in value.items()}
    if isinstance(value, list):
        return [_restored(part, f"{path}/{index}", arrays) for index, part in enumerate(value)]
    return value
