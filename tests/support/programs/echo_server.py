"""Send every WebSocket message back, served as environments are: ``python -m tests.support.programs.echo_server``.

Conformance suites want an echo. What they try is the server beneath an environment: its handshake, frames, UTF-8,
limits and endings. Prints the port first.
"""

import sys

from starlette.types import Receive, Scope, Send

from openenv.core.env_server.app import listen, run_app


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one socket."""
    if scope["type"] != "websocket":
        return
    await receive()  # websocket.connect
    await send({"type": "websocket.accept"})
    while (event := await receive())["type"] == "websocket.receive":
        await send({**event, "type": "websocket.send"})


if __name__ == "__main__":
    with listen("127.0.0.1", 0) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        run_app(echo, listener=listener)
