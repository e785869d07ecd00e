"""Time the steps of one client of a package, and print the median round trip and the CPU per step, in seconds, as JSON.

The CPU time is that of the whole process, with all of its threads.
"""

import argparse
import asyncio
import json
import statistics
import time

import uvloop

from benchmarks.programs.drive_client import HELLO, EchoClient

WARM_UP_STEPS = 100


async def time_async(url: str, steps: int) -> tuple[float, float]:
    """Return the median round trip and the CPU per step of the async client."""
    async with EchoClient(base_url=url) as client:
        await client.reset()
        for _ in range(WARM_UP_STEPS):
            await client.step(HELLO)
        round_trips = []
        cpu = time.process_time()
        for _ in range(steps):
            started = time.perf_counter()
            await client.step(HELLO)
            round_trips.append(time.perf_counter() - started)
        return statistics.median(round_trips), (time.process_time() - cpu) / steps


def time_sync(url: str, steps: int) -> tuple[float, float]:
    """Return the median round trip and the CPU per step of the sync client."""
    with EchoClient(base_url=url).sync() as client:
        client.reset()
        for _ in range(WARM_UP_STEPS):
            client.step(HELLO)
        round_trips = []
        cpu = time.process_time()
        for _ in range(steps):
            started = time.perf_counter()
            client.step(HELLO)
            round_trips.append(time.perf_counter() - started)
        return statistics.median(round_trips), (time.process_time() - cpu) / steps


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("async", "uvloop", "sync"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()
    if arguments.mode == "async":
        print(json.dumps(asyncio.run(time_async(arguments.url, arguments.steps))))
    elif arguments.mode == "uvloop":
        print(json.dumps(uvloop.run(time_async(arguments.url, arguments.steps))))
    else:
        print(json.dumps(time_sync(arguments.url, arguments.steps)))
