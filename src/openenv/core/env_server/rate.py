"""How many messages a client may send in a second."""

import time
from collections.abc import Callable

from openenv.core.exceptions import RateLimitedError

# What adding up the times of many messages may be off by.
_ROUNDING_S = 1e-6


class Rate:
    """Counts messages, of which so many may come in a second, and as many at once.

    This is a token bucket that holds a second's worth. All that it keeps is the time at which it would be full.

    Args:
        per_s: Messages in a second.
        clock: What tells the time, in seconds.
    """

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_s = per_s
        self._clock = clock
        self._cost_s = 1.0 / per_s
        self._burst_s = max(1.0, self._cost_s)
        self._full_at = clock()

    @property
    def full(self) -> bool:
        """Whether nothing has come for so long that it may be forgotten."""
        return self._full_at <= self._clock()

    def check(self) -> None:
        """Count a message.

        Raises:
            RateLimitedError: It is one too many, and does not count.
        """
        error = self.refusal()
        if error is not None:
            raise error

    def refusal(self) -> RateLimitedError | None:
        """Count a message; where it is one too many it does not count, and the error to answer it with is given."""
        now = self._clock()
        full_at = max(self._full_at, now) + self._cost_s
        if full_at - now > self._burst_s + _ROUNDING_S:
            return RateLimitedError(self.per_s, full_at - now - self._burst_s)
        self._full_at = full_at
        return None


class Rates:
    """The rates of clients that no socket stands for.

    Args:
        per_s: Messages of each client in a second.
    """

    # So many may be kept before those are dropped that have sent nothing of late.
    _MANY = 1024

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._rates: dict[str, Rate] = {}
        self._tidy_at = self._MANY

    def __len__(self) -> int:
        """How many clients are remembered."""
        return len(self._rates)

    def check(self, client: str) -> None:
        """Count a message of a client; as ``Rate.check``."""
        rate = self._rates.get(client)
        if rate is None:
            if len(self._rates) >= self._tidy_at:
                self._tidy()
            rate = self._rates[client] = Rate(self._per_s)
        rate.check()

    def _tidy(self) -> None:
        self._rates = {client: rate for client, rate in self._rates.items() if not rate.full}
        self._tidy_at = 2 * len(self._rates) + self._MANY
