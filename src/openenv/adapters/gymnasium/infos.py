"""What an environment reports beside observations, as JSON and back.

NumPy's arrays go as lists. So that a Gymnasium client gets them as arrays again, the entry ``numpy`` lists where they
were and of what type; whoever wants the numbers only passes over it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

__all__ = ["ARRAYS", "plain_info", "restored_info"]

ARRAYS = "numpy"
"""The entry that says what was an array."""


def plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Write an info as JSON values.

    Args:
        info: What a Gymnasium environment returned.

    Returns:
        The same with lists for arrays, Python's numbers for NumPy's, and text for what has no form in JSON.

    Example:
        >>> plain_info({"mask": np.array([1, 0], np.int8), "prob": np.float64(0.5)})
        {'mask': [1, 0], 'prob': 0.5, 'numpy': {'/mask': {'dtype': 'int8', 'shape': [2]}}}
    """
    arrays: dict[str, Any] = {}
    plain = {str(name): _plain(value, f"/{name}", arrays) for name, value in info.items()}
    return {**plain, ARRAYS: arrays} if arrays else plain


def restored_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Make arrays again of what was one.

    Args:
        info: What ``plain_info`` wrote, or any other metadata, which stays as it is.
    """
    arrays = info.get(ARRAYS)
    if not isinstance(arrays, Mapping):
        return dict(info)
    rest = {name: value for name, value in info.items() if name != ARRAYS}
    return {name: _restored(value, f"/{name}", arrays) for name, value in rest.items()}


def _plain(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[path] = {"dtype": value.dtype.name, "shape": list(value.shape)}
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist(), path, arrays)
    if isinstance(value, Mapping):
        return {str(name): _plain(part, f"{path}/{name}", arrays) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{path}/{index}", arrays) for index, part in enumerate(value)]
    return to_jsonable_python(value, fallback=str)


def _restored(value: Any, path: str, arrays: Mapping[str, Any]) -> Any:
    if path in arrays:
        return np.array(value, arrays[path]["dtype"]).reshape(arrays[path]["shape"])
    if isinstance(value, Mapping):
        return {name: _restored(part, f"{path}/{name}", arrays) for name, part in value.items()}
    if isinstance(value, list):
        return [_restored(part, f"{path}/{index}", arrays) for index, part in enumerate(value)]
    return value
