"""Progress listener of a tool call: a context variable from the transport to the environment's runner."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

ProgressListener: TypeAlias = Callable[[float, str], object]
"""Callback with the fraction that is done, from 0 to 1, and a message."""

_listener: ContextVar[ProgressListener | None] = ContextVar("openenv_progress_listener", default=None)


@contextmanager
def progress_listener(listener: ProgressListener) -> Iterator[None]:
    """Call a listener, on the event loop, with the progress of the tool calls in this block.

    Args:
        listener: The listener.
    """
    loop = asyncio.get_running_loop()
    token = _listener.set(lambda fraction, message: loop.call_soon_threadsafe(listener, fraction, message))
    try:
        yield
    finally:
        _listener.reset(token)


current_progress_listener: Callable[[], ProgressListener | None] = _listener.get
"""Return the listener of the surrounding block, which any thread may call; ``None`` without such a block."""
