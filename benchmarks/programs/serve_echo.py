"""A bare ASGI application that sends every frame back: the least that a uvicorn server can cost."""

import argparse
import time

import uvicorn
from starlette.types import Receive, Scope, Send


class Echo:
    """Echoes the frames of every WebSocket.

    Args:
        spin_s: Seconds of CPU to burn on each frame first, as a server does that has something to do.
    """

    def __init__(self, spin_s: float) -> None:
        self._spin_s = spin_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a WebSocket, with whatever subprotocol it asks for, and echo until it goes."""
        assert scope["type"] == "websocket"
        await receive()
        await send({"type": "websocket.accept", "subprotocol": next(iter(scope["subprotocols"]), None)})
        while (message := await receive())["type"] == "websocket.receive":
            if self._spin_s:
                end = time.perf_counter() + self._spin_s
                while time.perf_counter() < end:
                    pass
            await send({"type": "websocket.send", "text": message["text"]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--spin-us", type=float, default=0.0)
    arguments = parser.parse_args()
    app = Echo(arguments.spin_us * 1e-6)
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, lifespan="off", log_level="warning")
