"""What sandboxes that a service's own SDK drives have in common: their creation, their end, and the SDK's errors."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar

from openenv.core.exceptions import ProviderError
from openenv.core.providers.cloud.errors import Service, ServiceError, repeated, shortened
from openenv.core.providers.cloud.sandbox import ShellSandbox
from openenv.core.wire.redaction import longest_first, message_of, without_secrets

COMMAND_TIMEOUT_S = 30
"""Seconds that a short command in a sandbox may take."""

IDLE_COMMAND = ("sleep", "infinity")
"""A command that does nothing, in place of the image's: the server gets its secrets when it is started."""

UNPROCESSABLE = 422
"""The status of an image of which the service can't make anything."""

CREATION = "the creation of a sandbox"

_PAUSE_S = 0.5

_MadeT = TypeVar("_MadeT")
_FoundT = TypeVar("_FoundT")
_ResultT = TypeVar("_ResultT")


class SdkSandbox(ShellSandbox, Generic[_MadeT, _FoundT]):
    """A sandbox that a service's SDK drives.

    ``_MadeT`` is what the SDK gives of a sandbox that it has made, ``_FoundT`` what it gives of those that it finds.

    Args:
        name: Its name, which no other has.
        secrets: Texts that no error shows.
    """

    service: ClassVar[Service]
    """The service, in the words of its errors."""

    _sdk_repeats: ClassVar[bool] = False
    """Whether the SDK repeats calls by itself whose failure may pass."""

    def __init__(self, name: str, secrets: Iterable[str]) -> None:
        super().__init__(name)
        self._secrets = set(secrets)
        self._may_be_there = False
        self._made: _MadeT | None = None

    @abstractmethod
    def _make(self) -> _MadeT:
        """Have the SDK make it, and wait until it runs."""

    @abstractmethod
    def _run(self, command: str) -> str:
        """Have the SDK run a shell command, and return what it printed."""

    @abstractmethod
    def _found(self) -> Sequence[_FoundT]:
        """Return what there is to end: the sandbox that was made, or those that have its name."""

    @abstractmethod
    def _end(self, found: _FoundT) -> None:
        """End one of them; without an error if it has gone already."""

    @abstractmethod
    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        """Return the classes of the SDK's errors."""

    @abstractmethod
    def _converted(self, what: str, error: Exception) -> ProviderError:
        """Return our error for one of the SDK's.

        Args:
            what: What was called.
            error: An error of ``_sdk_errors``.
        """

    def create(self) -> None:
        """Have it made, and wait until it runs."""
        self._may_be_there = True
        try:
            self._made = self._called(CREATION, self._make, harmless=False)
        except ServiceError as error:
            self._may_be_there = self._may_be_made(error)
            raise

    def run(self, command: str) -> str:
        """Run a short shell command and return what it printed."""
        return self._called("a command", partial(self._run, command))

    def remove(self) -> None:
        """End it; wait for it if its creation had no answer."""
        appears_by = time.monotonic() + self.appears_within_s
        while self._may_be_there:
            found = self._found()
            for each in found:
                self._end(each)
            self._may_be_there = not found and time.monotonic() < appears_by
            time.sleep(_PAUSE_S if self._may_be_there else 0)
        self._made = None

    @property
    def _running(self) -> _MadeT:
        """What the SDK has made. Raises ``ProviderError`` before that, and after its end."""
        if self._made is None:
            raise ProviderError(f"The sandbox {self.name} of {self.service.name} does not run.")
        return self._made

    def _may_be_made(self, error: ServiceError) -> bool:
        """Whether there may be a sandbox after its creation has failed."""
        return error.may_be_done

    def _called(self, what: str, call: Callable[[], _ResultT], *, harmless: bool = True) -> _ResultT:
        """Make a call of the SDK, whose errors become ours, without secrets; repeated as ``repeated`` has it.

        Args:
            what: What is called, for errors.
            call: Makes the call.
            harmless: Whether carrying it out twice does no harm.
        """
        if self._sdk_repeats:
            return self._tried(what, call)
        return repeated(partial(self._tried, what, call), harmless=harmless)

    def _tried(self, what: str, call: Callable[[], _ResultT]) -> _ResultT:
        try:
            return call()
        except ProviderError:  # some of which are a TimeoutError, too
            raise
        except self._sdk_errors() as error:
            raise self._converted(what, error) from None
        except (OSError, ValueError, LookupError) as error:
            raise self._failed(what, f"{type(error).__name__}: {self._said(error)}") from None

    def _failed(self, what: str, said: str) -> ProviderError:
        """Return the error for a failure that has no status."""
        return ProviderError(f"{self.service.name}: {what} failed with {said}")

    def _said(self, error: Exception) -> str:
        """Return what an error says, without secrets."""
        return self._without_secrets(message_of(error))

    def _without_secrets(self, text: str) -> str:
        return shortened(str(without_secrets(text, longest_first(self._secrets))))
