"""What is sent again on another connection: all together at first, later one by one.

A request may be what ends a connection, since the server or something on the way can't bear it. Those that were under
way with it must not be taken for it. So what was sent again twice for nothing waits until all else is answered, and is
then sent alone.
"""

from typing import Protocol

# How often a message is sent again at most: what has ended so many connections would end the next one too.
MOST_RESENDS = 5
_TOGETHER = 2


class Unanswered(Protocol):
    """Something that was sent on a connection that went before its answer came.

    Attributes:
        resends: How often it was sent again.
    """

    resends: int

    def send_again(self) -> None:
        """Send it on the connection that there is now."""


class Resending:
    """Sends what a connection left unanswered on the next one."""

    def __init__(self) -> None:
        self._sent: set[Unanswered] = set()
        self._waiting: list[Unanswered] = []

    def add(self, unanswered: Unanswered) -> None:
        """Send something again, now or when it is its turn."""
        if unanswered.resends < _TOGETHER:
            self._send(unanswered)
        else:
            self._waiting.append(unanswered)

    def proceed(self) -> None:
        """Send the next one of those that are sent alone, if it is its turn."""
        if self._waiting and not self._sent:
            least_suspect = min(self._waiting, key=_resends)
            self._waiting.remove(least_suspect)
            self._send(least_suspect)

    def settle(self, answered: Unanswered) -> bool:
        """Note that a request was answered, or that its caller was cancelled.

        Returns:
            Whether it was still to be sent.
        """
        waited = answered in self._waiting
        if waited:
            self._waiting.remove(answered)
        self._sent.discard(answered)
        self.proceed()
        return waited

    def clear(self) -> None:
        """Forget all requests: the connection was lost, and the next one begins with none."""
        self._sent.clear()
        self._waiting.clear()

    def _send(self, unanswered: Unanswered) -> None:
        self._sent.add(unanswered)
        unanswered.send_again()


def _resends(unanswered: Unanswered) -> int:
    return unanswered.resends
