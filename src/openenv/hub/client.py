"""Client of the Hub over its library, with errors that name a remedy, and patience where waiting helps."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from json import JSONDecodeError
from typing import Any, TypeVar

from openenv._version import __version__
from openenv.core.exceptions import HubError
from openenv.hub.library import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationDelete,
    DeviceCodeError,
    HfApi,
    HfHubHTTPError,
    HTTPError,
    OIDCError,
    RepoInfo,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    get_token,
    login,
)

ResultT = TypeVar("ResultT")

TOKENS_PAGE = "https://huggingface.co/settings/tokens"
LONGEST_WAIT_S = 60.0
"""Longest wait in seconds that the Hub may request; a longer one is an error."""

DELAYS_S = (0.5, 1.0, 2.0, 4.0)
"""Seconds to wait before each further attempt, where the Hub gives no time."""

_PASSING = frozenset({408, 429, 500, 502, 503, 504})


class Hub:
    """The Hugging Face Hub, for one account.

    Args:
        token: A token of that account; that of ``hf auth login`` or ``HF_TOKEN`` if ``None``.
        endpoint: The Hub's address; that of ``HF_ENDPOINT`` if ``None``, else ``https://huggingface.co``.

    Attributes:
        api: The library's client, whose calls go through ``request``.
        endpoint: The Hub's address.
    """

    def __init__(self, token: str | None = None, endpoint: str | None = None) -> None:
        self.api = HfApi(endpoint, token, library_name="openenv", library_version=__version__)
        self.endpoint: str = self.api.endpoint
        self._token = token

    def request(self, doing: str, call: Callable[[], ResultT], *, repeatable: bool = True) -> ResultT:
        """Send the Hub a request; again, after a while, where the Hub is overloaded or the connection went.

        Args:
            doing: Purpose of the request, for errors: "create the Space me/echo".
            call: Sends the request.
            repeatable: Whether two requests do no more than one.

        Returns:
            Result of the call.

        Raises:
            HubError: The Hub refuses, or can't be reached.
        """
        for delay_s in (*DELAYS_S, None):
            try:
                return call()
            except HTTPError as error:
                wait_s = None if delay_s is None else _wait_s(error, delay_s, repeatable)
                if wait_s is None:
                    raise self._error(doing, error) from error
                time.sleep(wait_s)
            except JSONDecodeError as error:
                raise HubError(f"Could not {doing}: what answers at {self.endpoint} is no Hub.") from error
        raise AssertionError("the last attempt returns or raises")

    def log_in(self, *, may_prompt: bool) -> None:
        """Check that there is a token for requests to the Hub.

        Args:
            may_prompt: Whether a person at the terminal can log in.

        Raises:
            HubError: There is none.
        """
        try:
            if self._token or get_token():
                return
            if may_prompt:
                login()
        except (DeviceCodeError, OIDCError, HTTPError, ValueError) as error:
            raise HubError(f"Could not log in to the Hub: {error}") from error
        if not get_token():
            raise HubError(
                "This needs an account on the Hub, and no account is logged in. Log in with `hf auth login`, or set "
                f"HF_TOKEN to a token that may write: {TOKENS_PAGE}"
            )

    def user(self) -> str:
        """Return the name of the account.

        Raises:
            HubError: The Hub does not know the token, or can't be reached.
        """
        account: dict[str, Any] = self.request("look up your account", self.api.whoami)
        return str(account["name"])

    def find(self, repo_id: str, kind: str = "space") -> RepoInfo | None:
        """Read about a repository; ``None`` if there is none, or none that the token may see.

        Args:
            repo_id: ``OWNER/NAME``.
            kind: ``space``, ``dataset`` or ``model``.

        Raises:
            HubError: The Hub refuses, or can't be reached.
        """
        try:
            return self.request(f"look for {repo_id}", partial(self.api.repo_info, repo_id, repo_type=kind))
        except HubError as error:
            # The Hub answers 401 for what is not there to an invalid token, which the next call reports.
            if error.status in (401, 404):
                return None
            raise

    def commit(
        self,
        repo_id: str,
        operations: Iterable[CommitOperationAdd | CommitOperationDelete],
        *,
        message: str,
        kind: str = "space",
        create_pr: bool = False,
    ) -> CommitInfo:
        """Upload files, and commit them as one change. Done twice, the second finds all there and commits nothing.

        Args:
            repo_id: ``OWNER/NAME``.
            operations: The files that are added and deleted.
            message: Message of the commit.
            kind: ``space``, ``dataset`` or ``model``.
            create_pr: Whether to propose it to the owner instead.

        Raises:
            HubError: The storage does not take a file. Other errors are handled by ``request``, which calls this.
        """
        try:
            return self.api.create_commit(
                repo_id, operations, repo_type=kind, commit_message=message, create_pr=create_pr
            )
        except (ValueError, RuntimeError) as error:  # as the library tells of a file that the storage does not take
            raise HubError(f"Could not upload to {repo_id}: {_with_causes(error)}") from error

    def page_of(self, repo_id: str, kind: str = "space") -> str:
        """Return the address of a repository's page."""
        return f"{self.endpoint}/{'' if kind == 'model' else f'{kind}s/'}{repo_id}"

    def _error(self, doing: str, error: HTTPError) -> HubError:
        status = _status(error)
        if isinstance(error, RevisionNotFoundError):
            reason = "there is no such branch, tag or commit"
        elif isinstance(error, RepositoryNotFoundError) or status == 404:
            reason = "there is none of that name, or it is private and your token may not see it"
        elif status is None:
            reason = f"{self.endpoint} can't be reached ({error}). Check the network, and HF_ENDPOINT if it is set"
        else:
            reason = f"{_reason(status, error)} (status {status}){_message_of(error)}"
        return HubError(f"Could not {doing}: {reason}.", status)


def _with_causes(error: BaseException) -> str:
    texts = []
    cause: BaseException | None = error
    while cause is not None:
        texts.append(str(cause).strip())
        cause = cause.__cause__
    return ": ".join(texts)


def _wait_s(error: HTTPError, delay_s: float, repeatable: bool) -> float | None:
    """Return the seconds before the next request; ``None`` where that is no use, or may do harm."""
    status = _status(error)
    if status == 429:  # of all answers, the one that says for certain that nothing was done
        retry_after_s = _retry_after_s(error)
        wait_s = delay_s if retry_after_s is None else retry_after_s
        return wait_s if wait_s <= LONGEST_WAIT_S else None
    return delay_s if repeatable and (status is None or status in _PASSING) else None


def _status(error: HTTPError) -> int | None:
    return error.response.status_code if isinstance(error, HfHubHTTPError) else None


def _retry_after_s(error: HTTPError) -> float | None:
    value = error.response.headers.get("Retry-After", "") if isinstance(error, HfHubHTTPError) else ""
    return float(value) if value.isdigit() else None


def _reason(status: int, error: HTTPError) -> str:
    if status == 429:
        retry_after_s = _retry_after_s(error)
        return "the Hub had too many requests of yours; " + (
            f"come back in {retry_after_s:g} s" if retry_after_s else "come back later"
        )
    if status >= 500:
        return "the Hub is in trouble; try again later, and see https://status.huggingface.co"
    return {
        401: "the Hub does not know your token; log in with `hf auth login --force`, or correct HF_TOKEN",
        402: "the Hub wants to be paid for that; free accounts have no Docker Spaces on free hardware",
        403: f"your token may not do that; make one that may: {TOKENS_PAGE}",
        409: "another account has it already, or is changing it right now",
        412: "another account has changed it meanwhile; try again",
        413: "that is more than the Hub takes at once; leave large files out with --exclude",
    }.get(status, "the Hub refuses")


def _message_of(error: HTTPError) -> str:
    """Return the Hub's message."""
    message = error.server_message if isinstance(error, HfHubHTTPError) else None
    return f". Its message: {message.rstrip('.')}" if message else ""


def as_items(values: Mapping[str, str]) -> list[dict[str, str]] | None:
    """Return variables or secrets in the form that the Hub takes; ``None`` where there are none."""
    return [{"key": key, "value": value} for key, value in values.items()] or None
