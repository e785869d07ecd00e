"""Rate limits: how many messages a client may send in a second."""

import time
from collections.abc import Callable

from openenv.core.exceptions import RateLimitedError

# Rounding error of the sum of the times of many messages.
_ROUNDING_S = 1e-6


class Rate:
    """Rate limit: so many messages in a second, and as many at once.

    A token bucket for the messages of one second. Its only state is the time at which the bucket would be full.

    Args:
        per_s: Messages in a second.
        clock: Returns the time in seconds.
    """

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.change(per_s)

    def change(self, per_s: float) -> None:
        """Allow another number of messages in a second from now on; none of those before counts."""
        self._full_at = self._clock()
        self.per_s = per_s
        self._cost_s = 1.0 / per_s
        self._burst_s = max(1.0, self._cost_s)

    @property
    def full(self) -> bool:
        """Whether the bucket is full, so that the rate need not be kept."""
        return self._full_at <= self._clock()

    def check(self) -> None:
        """Count a message.

        Raises:
            RateLimitedError: The message is above the limit, and does not count.
        """
        error = self.refusal()
        if error is not None:
            raise error

    def refusal(self) -> RateLimitedError | None:
        """Count a message and return ``None``; for one above the limit, which does not count, return the error."""
        now = self._clock()
        full_at = max(self._full_at, now) + self._cost_s
        if full_at - now > self._burst_s + _ROUNDING_S:
            return RateLimitedError(self.per_s, full_at - now - self._burst_s)
        self._full_at = full_at
        return None


class Rates:
    """Rates of clients that send requests over HTTP, not over a socket.

    Args:
        per_s: Messages of each client in a second.
    """

    # Above this number of rates, the full ones are dropped.
    _MANY = 1024

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._rates: dict[str, Rate] = {}
        self._tidy_at = self._MANY

    def __len__(self) -> int:
        """Number of clients whose rates are kept."""
        return len(self._rates)

    def check(self, client: str) -> None:
        """Count a message of a client; see ``Rate.check``."""
        rate = self._rates.get(client)
        if rate is None:
            if len(self._rates) >= self._tidy_at:
                self._tidy()
            rate = self._rates[client] = Rate(self._per_s)
        rate.check()

    def _tidy(self) -> None:
        self._rates = {client: rate for client, rate in self._rates.items() if not rate.full}
        self._tidy_at = 2 * len(self._rates) + self._MANY
