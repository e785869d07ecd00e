"""Drive a server with a package's own client, and print what it took as JSON.

Run by the interpreter of either package; it uses only names that both have.
"""

import argparse
import asyncio
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from benchmarks.programs.environment import EchoAction, EchoObservation
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import State

SESSIONS = 64
HELLO = EchoAction(message="hello there")


class EchoClient(EnvClient[EchoAction, EchoObservation, State]):
    """A typed client as the public package's scaffold has authors write it."""

    def _step_payload(self, action: EchoAction) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[EchoObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = EchoObservation(text=payload["observation"]["text"], reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


async def async_round_trip(url: str, steps: int) -> float:
    """Return the median seconds of a step of one async client."""
    async with EchoClient(base_url=url) as client:
        await client.reset()
        return statistics.median([await _timed_step(client) for _ in range(steps)])


async def _timed_step(client: EchoClient) -> float:
    started = time.perf_counter()
    await client.step(HELLO)
    return time.perf_counter() - started


def sync_round_trip(url: str, steps: int) -> float:
    """Return the median seconds of a step of one synchronous client."""
    latencies = []
    with EchoClient(base_url=url).sync() as client:
        client.reset()
        for _ in range(steps):
            started = time.perf_counter()
            client.step(HELLO)
            latencies.append(time.perf_counter() - started)
    return statistics.median(latencies)


def threaded_rate(url: str, steps: int) -> float:
    """Return the steps per second of synchronous clients in a thread each, all stepping at once."""
    start, end = threading.Barrier(SESSIONS + 1), threading.Barrier(SESSIONS + 1)
    workers = [threading.Thread(target=_step_between, args=(url, steps, start, end)) for _ in range(SESSIONS)]
    for worker in workers:
        worker.start()
    start.wait()
    started = time.perf_counter()
    end.wait()
    seconds = time.perf_counter() - started
    for worker in workers:
        worker.join()
    return SESSIONS * steps / seconds


def _step_between(url: str, steps: int, start: threading.Barrier, end: threading.Barrier) -> None:
    try:
        with EchoClient(base_url=url).sync() as client:
            client.reset()
            start.wait()
            for _ in range(steps):
                client.step(HELLO)
            end.wait()
    except BaseException:
        # The others would wait for this thread for ever.
        start.abort()
        end.abort()
        raise


async def together_rate(url: str, steps: int) -> float:
    """Return the steps per second of async clients that step together: the next step waits for the last of them."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(EchoClient(base_url=url)) for _ in range(SESSIONS)]
        await asyncio.gather(*[client.reset() for client in clients])
        started = time.perf_counter()
        for _ in range(steps):
            await asyncio.gather(*[client.step(HELLO) for client in clients])
        return SESSIONS * steps / (time.perf_counter() - started)


def turn(url: str, steps: int) -> float:
    """Return the median seconds in which synchronous clients, one after another, each do one step."""
    with ExitStack() as stack:
        clients = [stack.enter_context(EchoClient(base_url=url).sync()) for _ in range(SESSIONS)]
        for client in clients:
            client.reset()
        return statistics.median([_timed_turn(clients) for _ in range(steps)])


def _timed_turn(clients: Sequence[Any]) -> float:
    started = time.perf_counter()
    for client in clients:
        client.step(HELLO)
    return time.perf_counter() - started


MODES: dict[str, Callable[[str, int], Any]] = {
    "async": async_round_trip,
    "sync": sync_round_trip,
    "threads": threaded_rate,
    "together": together_rate,
    "turn": turn,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=list(MODES))
    parser.add_argument("--url", required=True)
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()
    figure = MODES[arguments.mode](arguments.url, arguments.steps)
    print(json.dumps(asyncio.run(figure) if asyncio.iscoroutine(figure) else figure))
