"""Interface of observers of the operations of sessions, such as tracing."""

from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

Facts: TypeAlias = dict[str, str | float]
"""What is known of an operation, by name."""


class SessionObserver(Protocol):
    """Observer of the opening, resets, steps and closing of a server's sessions."""

    def observe(self, operation: str, session_name: str | None = None) -> AbstractContextManager[Facts]:
        """Observe an operation, which is carried out within the block.

        Args:
            operation: ``open``, ``reset``, ``step`` or ``close``.
            session_name: Public name of the session; ``None`` before the session is open.

        Returns:
            A context manager of the facts, to which the block adds. It does not suppress exceptions.
        """
        ...

    def close(self) -> None:
        """Send the remaining observations, at shutdown. Blocks."""
        ...
