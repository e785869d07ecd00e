"""Errors of cloud services, the words in which they speak of one, and which of them pass."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from openenv.core.exceptions import ProviderError

LONGEST_WAIT_S = 60.0
"""Seconds that a service may ask to wait; asked for more, a call fails at once."""

_ResultT = TypeVar("_ResultT")

_PAUSES_S = (0.5, 1.0, 2.0)
_TOO_MANY = 429
_FIRST_SERVER_ERROR = 500
_SHOWN_CHARACTERS = 400


class ServiceError(ProviderError):
    """A service refused a call, or gave no answer.

    Attributes:
        status: The status of its answer; ``None`` without one.
        retry_after_s: Seconds that the service asks to wait before the next call; 0 where it names none.
    """

    def __init__(self, message: str, status: int | None = None, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s

    @property
    def may_be_done(self) -> bool:
        """Whether the call may have been carried out all the same."""
        return self.status is None or self.status >= _FIRST_SERVER_ERROR


@dataclass(frozen=True, kw_only=True)
class Service:
    """A cloud service, in the words of its errors.

    Attributes:
        name: What people call it.
        credentials: How its key is given and where there is one, to follow "set".
    """

    name: str
    credentials: str

    def refusal(self, call: str, status: int, detail: str, retry_after_s: float = 0.0) -> ServiceError:
        """Return the error for a call that was refused.

        Args:
            call: What was called.
            status: The status of the answer.
            detail: What the answer says, without secrets; may be empty.
            retry_after_s: Seconds that it asks to wait.
        """
        said = f" ({shortened(detail)})" if detail else ""
        what = f"{self.name} answered {call} with {status}{said}: {self._advice(status, retry_after_s)}"
        return ServiceError(what, status, retry_after_s)

    def silence(self, call: str, detail: str) -> ServiceError:
        """Return the error for a call that had no answer.

        Args:
            call: What was called, as in ``at https://...`` or ``for the creation of a sandbox``.
            detail: What failed, without secrets.
        """
        what = f"{self.name} can't be reached {call}: {shortened(detail)}. Check the network and the address."
        return ServiceError(what)

    def _advice(self, status: int, retry_after_s: float) -> str:
        if status in (401, 403):
            return f"the key is missing, wrong, or not allowed to do this. Set {self.credentials}."
        if status == 404:
            return "there is no such thing, or this key may not see it. Check the names."
        if status == _TOO_MANY:
            wait = f"in {retry_after_s:.0f} s" if retry_after_s else "later"
            return f"too many requests. Try again {wait}, with fewer at once, or have the limit raised."
        if status >= _FIRST_SERVER_ERROR:
            return f"it fails at the moment. Try again later; {self.name}'s status page may say more."
        return "it does not accept this request."


def repeated(call: Callable[[], _ResultT], *, harmless: bool) -> _ResultT:
    """Make a call, again if its failure may pass: one that the service limits (429), after the time that it asks for.

    Args:
        call: Raises ``ServiceError`` if it fails.
        harmless: Whether carrying it out twice does no harm: then it is repeated too if the service fails (5xx), or
            gives no answer.

    Returns:
        What the call returns.

    Raises:
        ServiceError: It failed each time.
    """
    pauses = iter(_PAUSES_S)
    while True:
        try:
            return call()
        except ServiceError as error:
            may_pass = error.status == _TOO_MANY or (harmless and error.may_be_done)
            pause_s = next(pauses, None)
            if not may_pass or pause_s is None or error.retry_after_s > LONGEST_WAIT_S:
                raise
            time.sleep(max(pause_s, error.retry_after_s))


def retry_after(value: str) -> float:
    """Read the header ``Retry-After``: seconds, or a date.

    Args:
        value: The header's value; anything else than these two counts as 0.

    Returns:
        Seconds from now on.
    """
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0


def shortened(text: str) -> str:
    """Cut a text that an error is to show."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
