"""Values that JSON has no form for and that stand for some that it has: those of NumPy and torch.

Serialisers call this only for types that they do not know, so all others cost nothing; neither library is imported.
"""

import sys
from typing import Any

from pydantic_core import PydanticSerializationError

_ARRAYS = (("numpy", ("generic", "ndarray")), ("torch", ("Tensor",)))


def single_value(value: Any) -> Any:
    """Return the number of an array or a tensor that has one, whatever its shape; any other value as it is.

    Args:
        value: What an environment gave as a reward or a score.

    Example:
        >>> import numpy
        >>> single_value(numpy.array([[0.5]]))
        0.5
    """
    if type(value) in (float, int):
        return value
    try:
        plain = plain_value(value)
    except PydanticSerializationError:
        return value
    while isinstance(plain, list) and len(plain) == 1:
        plain = plain[0]
    return plain if isinstance(plain, int | float) else value


def plain_value(value: Any) -> Any:
    """Make a number of a scalar, and nested lists of an array or a tensor; for the ``fallback`` of pydantic.

    Args:
        value: What the serialiser does not know.

    Raises:
        PydanticSerializationError: It is something else.

    Example:
        >>> import numpy
        >>> plain_value(numpy.arange(4).reshape(2, 2))
        [[0, 1], [2, 3]]
    """
    for library, names in _ARRAYS:
        module = sys.modules.get(library)
        if module is not None and any(isinstance(value, getattr(module, name)) for name in names):
            plain: Any = value.tolist()
            if type(plain) is not type(value):  # NumPy's longest floats stay what they are
                return plain
    raise PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")
