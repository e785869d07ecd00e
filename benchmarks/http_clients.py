"""``python -m benchmarks.http_clients``: our HTTP clients with 2,000 requests at once.

Each client has a process of its own, and a server of asyncio's in another one, which answers after a while. The table
has the seconds until the last answer, the CPU of the client's process, requests that failed, the most connections that
the server had at a time, the longest time for which the event loop of the caller did nothing else, and memory at its
highest.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.public_package import ROOT

TICK_S = 0.01
WIDTH = 110
_COMPLETION = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "4"}}],
}
_ANSWERS: dict[bytes, Any] = {
    b"/score": 0.5,
    b"/v1/chat/completions": _COMPLETION,
    b"/schema": {"action": {}, "observation": {}, "state": {}},
}


class StubServer:
    """Answers every request after a while.

    Args:
        delay_s: How long a request takes.

    Attributes:
        most: The most connections that there were at a time.
    """

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._connections = 0
        self.most = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self._connections += 1
        self.most = max(self.most, self._connections)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):  # the client has no further request
                while await self._answer(reader, writer):
                    pass
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length:" in head:
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        await asyncio.sleep(self._delay_s)
        path = head.split(b" ", 2)[1]
        found = self.most if path == b"/most" else _ANSWERS[path]
        text = json.dumps(found).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text) + text
        )
        await writer.drain()
        return b"connection: close" not in head


async def serve(delay_s: float) -> None:
    """Serve until the process is ended, having printed the port."""
    async with await asyncio.start_server(StubServer(delay_s), "127.0.0.1", 0, backlog=4096) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


def endpoint_reward(port: int) -> Callable[[], Awaitable[Any]]:
    """Return what scores by an endpoint: a rubric for each request, as each session has one."""
    from openenv.core.rewards import EndpointReward

    return lambda: EndpointReward(f"http://127.0.0.1:{port}/score")({"answer": "4"}, {"prompt": "2 + 2?"})


def openai_client(port: int) -> Callable[[], Awaitable[Any]]:
    """Return what requests an answer of a model, by one client."""
    from openenv.core.llm_client import OpenAIClient

    client = OpenAIClient("http://127.0.0.1", port, "m")
    return lambda: client.complete("2 + 2?")


def schemas(port: int) -> Callable[[], Awaitable[Any]]:
    """Return what reads a server's schemas, by a client for each request."""
    from openenv import GenericEnvClient

    return lambda: GenericEnvClient(f"http://127.0.0.1:{port}").schemas()


CLIENTS: dict[str, Callable[[int], Callable[[], Awaitable[Any]]]] = {
    "EndpointReward": endpoint_reward,
    "OpenAIClient": openai_client,
    "schemas": schemas,
}


async def drive(request: Callable[[], Awaitable[Any]], count: int) -> dict[str, float]:
    """Send requests at once, and return what that took."""
    stalls = [0.0]
    watching = asyncio.create_task(_watch(stalls))
    started, cpu = time.perf_counter(), time.process_time()
    answers = await asyncio.gather(*[request() for _ in range(count)], return_exceptions=True)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    watching.cancel()
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    if failed:
        print(repr(failed[0]), file=sys.stderr)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu": cpu, "failed": len(failed), "stall": max(stalls), "memory": memory}


async def _watch(stalls: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(TICK_S)
        stalls.append(time.perf_counter() - before - TICK_S)


def main(
    requests: Annotated[int, typer.Option(help="Requests at once.", min=1)] = 2000,
    delay_s: Annotated[float, typer.Option(help="How long the server takes for each.", min=0)] = 0.05,
    only: Annotated[list[str] | None, typer.Option(help="Drive this client; may be repeated.")] = None,
    driven: Annotated[str | None, typer.Option(hidden=True)] = None,
    port: Annotated[int, typer.Option(hidden=True)] = 0,
) -> None:
    """Print what each client makes of many requests at once."""
    if driven == "server":
        asyncio.run(serve(delay_s))
    elif driven is not None:
        print(json.dumps(asyncio.run(drive(CLIENTS[driven](port), requests))))
    else:
        _print_table(only or list(CLIENTS), requests, delay_s)


def _print_table(clients: list[str], requests: int, delay_s: float) -> None:
    table = Table("client", "s", "CPU, s", "failed", "most connections", "longest stall, s", "memory, MB")
    for client in clients:
        with subprocess.Popen(_command("server", delay_s=delay_s), stdout=subprocess.PIPE, cwd=ROOT) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            printed = subprocess.run(
                _command(client, port=port, requests=requests), stdout=subprocess.PIPE, check=True, cwd=ROOT
            )
            most = asyncio.run(_most_connections(port))
            server.terminate()
        took = json.loads(printed.stdout)
        table.add_row(
            client,
            f"{took['seconds']:.1f}",
            f"{took['cpu']:.1f}",
            f"{took['failed']:.0f}",
            str(most),
            f"{took['stall']:.2f}",
            f"{took['memory']:.0f}",
        )
    Console(width=WIDTH).print(table)


def _command(driven: str, **options: float) -> list[str]:
    given = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    return [sys.executable, "-m", "benchmarks.http_clients", "--driven", driven, *given]


async def _most_connections(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /most HTTP/1.1\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return int(answer.rpartition(b"\r\n")[2])


if __name__ == "__main__":
    typer.run(main)
