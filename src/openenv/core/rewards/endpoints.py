"""``EndpointReward``: a service over HTTP that scores, as a rubric."""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Lock
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from openenv.core.documents import DocumentError, parse_json
from openenv.core.rewards.samples import ReadSample, SampleRubric

__all__ = ["EndpointReward"]

_LONGEST_ANSWER = 1_000_000
_NAMES = ("reward", "score")
# A thread that waits for an answer costs little; many that go on at the same time keep the event loop from running.
_AT_ONCE = 32


class EndpointReward(SampleRubric):
    """Score of an HTTP endpoint that is posted ``{"prompt", "completion", "target", "columns"}``; ``async``.

    It answers a number, or an object with the number as ``reward`` or ``score``. Redirects are not followed. A process
    has at most 32 requests under way, whatever their endpoints; others wait, before the time for their answer begins.

    Args:
        url: Address of the endpoint, ``http`` or ``https``.
        headers: Headers of the request, such as one with a token.
        timeout_s: Seconds from the request to the end of the answer, however it comes in.
        sample: Reads what is scored; by default `sample_of`.

    Raises:
        ValueError: The address is of another kind.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        sample: ReadSample | None = None,
    ) -> None:
        super().__init__(sample)
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"Expected an address that begins with http:// or https://, got {url!r}.")
        self._url = url
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._timeout_s = timeout_s
        self._answer: Any = None

    async def forward(self, action: Any, observation: Any) -> Any:
        """Post the sample and read the score.

        Raises:
            ConnectionError: The endpoint can't be reached, refuses, or does not answer in time.
            ValueError: The answer has no score.
        """
        body = json.dumps(asdict(self._sample(action, observation)), default=str).encode()
        request = _EndpointRequest(self._url, body, self._headers, method="POST")
        text = await request.answer(self._timeout_s)
        try:
            self._answer = parse_json(text)
        except DocumentError:
            raise ValueError(f"Expected JSON from {self._url}, got {text[:200]!r}.") from None
        return self._score(self._answer)

    def evidence(self) -> Any:
        """Return the last answer."""
        return self._answer

    def _score(self, answer: Any) -> Any:
        if isinstance(answer, Mapping):
            answer = next((answer[name] for name in _NAMES if name in answer), None)
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            raise ValueError(
                f"Expected a number from {self._url}, or one as reward or score; got {self._answer!r:.200}."
            )
        return answer


class _EndpointRequest(Request):
    """A request that a thread makes, and that ends with its time, whatever the thread waits for.

    A timeout of a socket bounds each read alone: an answer that comes byte by byte would go on for hours.
    """

    _timeout_s: float
    _limit: asyncio.Timeout
    _loop: asyncio.AbstractEventLoop

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lock = Lock()
        self._ended = False
        self._socket: socket.socket | None = None

    async def answer(self, timeout_s: float) -> bytes:
        """Return the body of the answer.

        Args:
            timeout_s: Seconds that it may take, from the moment at which a thread is free for it.

        Raises:
            ConnectionError: The endpoint can't be reached, refuses, breaks off, or does not answer in time.
        """
        self._timeout_s, self._loop = timeout_s, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as self._limit:
                return await self._loop.run_in_executor(_threads(os.getpid()), self._post)
        except TimeoutError:
            raise self._failed("the time is over") from None
        finally:
            self._end()

    def connect(self, *args: Any, **kwargs: Any) -> socket.socket:
        """Open the request's connection, in its thread."""
        opened = socket.create_connection(*args, **kwargs)
        with self._lock:
            if self._ended:
                opened.close()
                raise TimeoutError("the time is over")
            # TLS takes over the socket; a second one for the same connection stays.
            self._socket = opened.dup()
        return opened

    def _post(self) -> bytes:
        self._loop.call_soon_threadsafe(self._start_time)
        try:
            with _opener().open(self, timeout=self._timeout_s) as response:
                return _whole(response)
        except HTTPError as error:
            with error:
                said = error.read(200).decode(errors="replace")
            raise ConnectionError(f"{self.full_url} answered with status {error.code}: {said}") from None
        except (OSError, HTTPException) as error:
            raise self._failed(getattr(error, "reason", error)) from None

    def _start_time(self) -> None:
        if not self._ended:
            self._limit.reschedule(self._loop.time() + self._timeout_s)

    def _end(self) -> None:
        """Shut the connection down, which ends what the thread waits for."""
        with self._lock:
            self._ended = True
            if self._socket is not None:
                with suppress(OSError):  # the other side has closed it
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._socket.close()

    def _failed(self, reason: object) -> ConnectionError:
        return ConnectionError(f"Expected an answer of {self.full_url} within {self._timeout_s:g} s: {reason}")


def _whole(response: HTTPResponse) -> bytes:
    """Read a body. One that was cut off could still be a number, and another one."""
    text = response.read(_LONGEST_ANSWER)
    if response.length:
        raise HTTPException(f"of {response.length + len(text)} bytes only {len(text)} were read")
    return text


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error: it could lead the headers' token elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Connection(HTTPConnection):
    """Connection that its request opens."""

    def __init__(self, *args: Any, request: _EndpointRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._create_connection = request.connect


class _TlsConnection(_Connection, HTTPSConnection):
    """The same, with TLS."""


class _Handler(HTTPHandler):
    def http_open(self, req: Any) -> HTTPResponse:
        return self.do_open(partial(_Connection, request=req), req)


class _TlsHandler(HTTPSHandler):
    def https_open(self, req: Any) -> HTTPResponse:
        return self.do_open(partial(_TlsConnection, request=req, context=_certificates()), req)


@cache
def _opener() -> OpenerDirector:
    return build_opener(_NoRedirects, _Handler, _TlsHandler)


@cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates that are trusted; to read them takes longer than a request."""
    return ssl.create_default_context()


@cache
def _threads(_process_id: int) -> ThreadPoolExecutor:
    """Return the threads of the requests. asyncio's own are a few, and other work of the process needs them.

    Args:
        _process_id: The process, since one that was forked has none of them.
    """
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="openenv-endpoint")
