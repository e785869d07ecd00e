"""Drive a server with a package's own client, and print what it took as JSON.

Run by the interpreter of either package; it uses only names that both have.
"""

import argparse
import asyncio
import json
import statistics
import threading
import time
from typing import Any

from benchmarks.programs.environment import EchoAction, EchoObservation
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import State

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


def threaded_rate(url: str, steps: int, threads: int) -> float:
    """Return the steps per second of synchronous clients in a thread each, all stepping at once."""
    start, end = threading.Barrier(threads + 1), threading.Barrier(threads + 1)
    workers = [threading.Thread(target=_step_between, args=(url, steps, start, end)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    started = time.perf_counter()
    end.wait()
    seconds = time.perf_counter() - started
    for worker in workers:
        worker.join()
    return threads * steps / seconds


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("async", "sync", "threads"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, default=64)
    arguments = parser.parse_args()
    if arguments.mode == "async":
        figure = asyncio.run(async_round_trip(arguments.url, arguments.steps))
    elif arguments.mode == "sync":
        figure = sync_round_trip(arguments.url, arguments.steps)
    else:
        figure = threaded_rate(arguments.url, arguments.steps, arguments.threads)
    print(json.dumps(figure))
