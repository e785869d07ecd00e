"""The event loop that clients and environments' processes run on."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make uvloop's event loop, or the standard library's where there is no uvloop."""
    try:
        import uvloop
    except ImportError:  # not made for this platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
