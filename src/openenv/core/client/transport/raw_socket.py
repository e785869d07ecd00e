"""Requests over a socket that a client's subclass has opened by itself, as clients of the public project do.

It is one of ``websockets``, blocking or asynchronous, or one with the same ``send``, ``recv`` and ``close``, and speaks
the legacy wire.
"""

import asyncio
import dis
from contextlib import suppress
from functools import cache
from inspect import iscoroutinefunction, isfunction
from types import FunctionType
from typing import Any

from websockets.exceptions import ConnectionClosed

from openenv.core.client.transport.session import legacy_message, parsed, timed_out
from openenv.core.exceptions import ClientModeError, ConnectionLostError

_closing: set[asyncio.Task[None]] = set()


@cache
def opens_socket(cls: type, base: type) -> bool:
    """Return whether a method of a client's class sets ``_ws``, at whatever time.

    Args:
        cls: The class.
        base: The class whose methods, and those of its bases, are not looked at.
    """
    functions = (each for owner in cls.__mro__ if owner not in base.__mro__ for each in vars(owner).values())
    return any(isfunction(each) and _sets_socket(each) for each in functions)


async def exchange_raw(socket: Any, kind: bytes, data: bytes | None, timeout_s: float | None) -> Any:
    """Send a request and await its answer; a socket that gives none is closed.

    Args:
        socket: The socket.
        kind: The request's ``type``.
        data: Its ``data`` as JSON; ``None`` for a type that has none.
        timeout_s: Seconds that the answer may take; ``None`` for no limit.

    Raises:
        ClientModeError: The socket is another event loop's.
        ConnectionLostError: The connection went.
        ResponseTimeoutError: No answer came in time.
    """
    request = legacy_message(kind, data).decode()
    is_async = iscoroutinefunction(socket.send)
    if is_async and getattr(socket, "loop", None) not in (None, asyncio.get_running_loop()):
        raise ClientModeError("The client's socket was opened in another event loop. Make a client for each loop.")
    try:
        async with asyncio.timeout(timeout_s):
            answer = await (
                _exchange(socket, request) if is_async else asyncio.to_thread(_exchange_blocking, socket, request)
            )
    except TimeoutError:
        drop_raw(socket)
        raise timed_out(timeout_s) from None
    except (ConnectionClosed, OSError, EOFError) as error:
        drop_raw(socket)
        raise ConnectionLostError(
            f"The connection of the client's own socket ended: {error}. The next call opens a new session."
        ) from error
    except asyncio.CancelledError:
        drop_raw(socket)
        raise
    return parsed(answer.encode() if isinstance(answer, str) else answer)


async def close_raw(socket: Any) -> None:
    """Close a socket, blocking or not."""
    with suppress(ConnectionClosed, OSError):
        await (socket.close() if iscoroutinefunction(socket.close) else asyncio.to_thread(socket.close))


def drop_raw(socket: Any) -> None:
    """Let go of a socket, without waiting for the server's part in it where it is closed by a handshake."""
    transport = getattr(socket, "transport", None)
    if transport is not None:
        transport.abort()
        return
    task = asyncio.get_running_loop().create_task(close_raw(socket))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


def _sets_socket(function: FunctionType) -> bool:
    return any(each.opname == "STORE_ATTR" and each.argval == "_ws" for each in dis.get_instructions(function))


async def _exchange(socket: Any, request: str) -> str | bytes:
    with suppress(ConnectionClosed):  # the server may have said why it closes
        await socket.send(request)
    answer: str | bytes = await socket.recv()
    return answer


def _exchange_blocking(socket: Any, request: str) -> str | bytes:
    with suppress(ConnectionClosed):
        socket.send(request)
    answer: str | bytes = socket.recv()
    return answer
