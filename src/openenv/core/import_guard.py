"""Servers refuse to start while a process only imports the program that would start them."""

from collections.abc import Iterator
from contextlib import contextmanager

from openenv.core.exceptions import ConfigurationError

# Settings that this process imports a user's program for at the moment, as a user writes them.
_importing_for: list[str] = []


def refuse_while_importing() -> None:
    """Refuse to start a server while this process imports the program that would start it.

    Raises:
        ConfigurationError: The process is importing it.
    """
    if _importing_for:
        raise ConfigurationError(
            f"The program starts a server whenever it is imported, and {_importing_for[-1]} imports it once more. "
            'Start the server under `if __name__ == "__main__":`, or put the environment into a module of its own.'
        )


@contextmanager
def importing(needed_for: str) -> Iterator[None]:
    """Have every server refuse to start during the block, in which a user's program may be imported.

    Args:
        needed_for: The setting that imports the program, for the error.
    """
    _importing_for.append(needed_for)
    try:
        yield
    finally:
        _importing_for.pop()
