"""Random numbers that belong to an episode.

TextArena's games draw from Python's module ``random``, and a few from numpy's global generator, which all sessions of a
process share. Their modules get the stand-ins below for both names. Within ``Chance.in_use`` a stand-in draws from that
episode's own generators; anywhere else it is the module that it stands for.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy

from openenv.core.seeding import rng

_in_use: ContextVar["Chance | None"] = ContextVar("_in_use", default=None)


class Chance:
    """The generators of one episode.

    Args:
        seed: The same seed gives the same numbers.
    """

    def __init__(self, seed: int | str) -> None:
        self.python = rng(seed, "game")
        self.numpy = numpy.random.RandomState(self.python.getrandbits(32))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let TextArena draw from here, in this thread, for the time of the block."""
        token = _in_use.set(self)
        try:
            yield
        finally:
            _in_use.reset(token)


class _RandomModule:
    """Stands for the module ``random``."""

    def __getattr__(self, name: str) -> Any:
        chance = _in_use.get()
        source = chance.python if chance is not None and hasattr(chance.python, name) else random
        return getattr(source, name)

    def Random(self, seed: Any = None) -> random.Random:  # noqa: N802  # the class that it stands for
        """Make a generator; without a seed, one that the episode's seed determines."""
        chance = _in_use.get()
        if seed is None and chance is not None:
            seed = chance.python.getrandbits(64)
        return random.Random(seed)  # noqa: S311  # games, not keys


class _NumpyRandomModule:
    """Stands for ``numpy.random``."""

    def __getattr__(self, name: str) -> Any:
        chance = _in_use.get()
        source = chance.numpy if chance is not None and hasattr(chance.numpy, name) else numpy.random
        return getattr(source, name)

    def default_rng(self, seed: Any = None) -> "numpy.random.Generator":
        """Make a generator; without a seed, one that the episode's seed determines."""
        chance = _in_use.get()
        if seed is None and chance is not None:
            seed = chance.python.getrandbits(64)
        return numpy.random.default_rng(seed)


class _NumpyModule:
    """Stands for ``numpy``."""

    random = _NumpyRandomModule()

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)


_STAND_INS: dict[int, object] = {id(random): _RandomModule(), id(numpy): _NumpyModule()}


def draw_from_episodes(names: dict[str, Any]) -> None:
    """Put the stand-ins in a module's names, whatever it calls the modules that they stand for.

    Args:
        names: The module's ``__dict__``.
    """
    for name, value in list(names.items()):
        if id(value) in _STAND_INS:
            names[name] = _STAND_INS[id(value)]
