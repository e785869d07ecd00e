"""Server whose answers are checked: its sockets and its routes, and what was expected of an answer."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.typing import Subprotocol

from openenv.adapters.text import ActionText
from openenv.core.addresses import is_on_this_machine, socket_url, url_with_path
from openenv.core.client.client import authorized_headers
from openenv.core.exceptions import ConfigurationError, RequestError
from openenv.core.wire.bounded_json import read_json
from openenv.core.wire.names import V1
from openenv.train.agents.players import RandomPlayer
from openenv.validation.findings import Finding, fail, shortened
from openenv.validation.runtime.transport import FAULTS, abort_socket, open_socket
from openenv.validation.trials import action_fields

_MAX_BYTES = 16 * 2**20
_LONGEST = 300
_FULL = "CAPACITY_REACHED"
_PAUSE_S = 0.2


class NotOfferedError(Exception):
    """The server does not offer what a part of the checks is about; the message has the evidence."""


class NoAnswerError(Exception):
    """The server gave no answer that can be read; the message has what came instead."""


@dataclass(frozen=True)
class AnswerForm:
    """Form that an answer has to have.

    Attributes:
        text: The form in words, after "expected".
        fits: Returns whether an answer has it.
    """

    text: str
    fits: Callable[[Any], bool]


class RouteReply(NamedTuple):
    """Answer of a route.

    Attributes:
        status: Its status.
        document: Its content as JSON; ``None`` where it is no JSON.
        text: Its content.
    """

    status: int
    document: Any
    text: str


class Socket:
    """Socket of a server.

    Args:
        connection: The connection.
        timeout_s: Seconds that an answer may take.
    """

    def __init__(self, connection: ClientConnection, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        # Messages of an array that were not read yet.
        self._left: list[Any] = []

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that the server has chosen."""
        return self._connection.subprotocol

    def send(self, message: Any) -> None:
        """Send a text or bytes as they are, and any other value as JSON."""
        try:
            self._connection.send(message if isinstance(message, str | bytes) else json.dumps(message))
        except FAULTS as error:
            raise NoAnswerError(_came(error)) from error

    def receive(self) -> Any:
        """Return the next message; the messages of an array come one by one.

        Raises:
            NoAnswerError: None comes, or what comes is no JSON.
        """
        if not self._left:
            try:
                frame = self._connection.recv(timeout=self._timeout_s)
                document = read_json(frame if isinstance(frame, str) else None, _MAX_BYTES)
            except FAULTS as error:
                raise NoAnswerError(_came(error)) from error
            self._left = document if isinstance(document, list) and document else [document]
        return self._left.pop(0)

    def exchange(self, message: Any) -> Any:
        """Send a message, and return the next one; a full server sends an error before it reads anything."""
        with suppress(NoAnswerError):
            self.send(message)
        return self.receive()

    def wait_for_close(self) -> int | None:
        """Return the code with which the server closes; ``None`` where it sends something or nothing."""
        try:
            self._connection.recv(timeout=self._timeout_s)
        except ConnectionClosed as closed:
            return None if closed.rcvd is None else closed.rcvd.code
        except FAULTS:
            return None
        return None

    def cut(self) -> None:
        """End the connection without the closing handshake."""
        abort_socket(self._connection.socket)


class Server:
    """Server that is checked.

    Args:
        url: Its address.
        timeout_s: Seconds that an answer may take.
        token: Token that it requires; that of ``OPENENV_TOKEN`` if ``None``.

    Attributes:
        url: Its address.
        timeout_s: Seconds that an answer may take.
    """

    def __init__(self, url: str, timeout_s: float, token: str | None = None) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self.token = token
        self._headers = authorized_headers(None, token)

    @contextmanager
    def socket(self, subprotocol: str | None = None) -> Iterator[Socket]:
        """Open a socket.

        Raises:
            NoAnswerError: It can't be opened.
        """
        url = socket_url(self.url)
        offered = None if subprotocol is None else [Subprotocol(subprotocol)]
        try:
            connecting = open_socket(
                url, self._headers, timeout_s=self.timeout_s, max_bytes=_MAX_BYTES, subprotocols=offered
            )
            with connecting as connection:
                yield Socket(connection, self.timeout_s)
        except FAULTS as error:
            raise NoAnswerError(_came(error)) from error

    @contextmanager
    def legacy(self) -> Iterator[Socket]:
        """Open a socket on the legacy wire, once the server has a free session."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            with self.socket() as socket:
                if not _is_full(socket.exchange({"type": "state"})) or time.monotonic() > deadline:
                    yield socket
                    return
            time.sleep(_PAUSE_S)

    @contextmanager
    def v1(self) -> Iterator[Socket]:
        """Open a socket on v1.

        Raises:
            NotOfferedError: The server does not speak it.
        """
        with self.socket(V1) as socket:
            if socket.subprotocol != V1:
                raise NotOfferedError(f"the handshake has chosen {socket.subprotocol or 'no subprotocol'}, not {V1}")
            yield socket

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> RouteReply:
        """Send a request over HTTP.

        Raises:
            NoAnswerError: No answer comes.
        """
        try:
            with httpx.Client(trust_env=not is_on_this_machine(self.url), timeout=self.timeout_s) as client:
                reply = client.request(
                    method,
                    url_with_path(self.url, path),
                    json=body,
                    headers={**self._headers, **(headers or {})},
                )
        except FAULTS as error:
            raise NoAnswerError(_came(error)) from error
        return RouteReply(reply.status_code, _json(reply.text), reply.text)

    @cached_property
    def schemas(self) -> dict[str, Any]:
        """The schemas that the server publishes; empty where it publishes none."""
        document = self.request("GET", "/schema").document
        return document if isinstance(document, dict) else {}

    @cached_property
    def action(self) -> dict[str, Any] | None:
        """A random action by the server's schema; ``None`` where none can be made."""
        schema = self.schemas.get("action")
        if not isinstance(schema, dict):
            return None
        try:
            chosen = RandomPlayer(ActionText(schema), seed=1)({})
        except ConfigurationError:
            return None
        return action_fields(chosen)


def expect(form: AnswerForm, request: Any, answer: Any) -> Iterator[Finding]:
    """Yield a finding where an answer has not the form that was expected."""
    if not form.fits(answer):
        yield unexpected(form.text, request, answer)


def unexpected(expected: str, request: Any, came: Any) -> Finding:
    """Make the finding of an answer that differs from what is documented."""
    return fail(f"sent {_shown(request)}; expected {expected}; came {_shown(came)}", "See the page of the wire.")


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shortened(text, _LONGEST)


def _came(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _json(text: str) -> Any:
    try:
        return read_json(text, _MAX_BYTES)
    except RequestError:
        return None


def _is_full(message: Any) -> bool:
    data = message.get("data") if isinstance(message, dict) else None
    return isinstance(data, dict) and data.get("code") == _FULL
