"""Drive a vector of sessions with our own client, and print what it took as JSON."""

import argparse
import json
import statistics
import time

from benchmarks.programs.drive_client import HELLO, SESSIONS, EchoClient
from openenv.core.exceptions import OpenEnvError


def turns(url: str, steps: int) -> list[float]:
    """Return the seconds of each step of the whole vector."""
    with EchoClient(base_url=url).sync() as client, client.vector(SESSIONS) as vector:
        vector.reset()
        seconds = []
        for _ in range(steps):
            started = time.perf_counter()
            results = vector.step([HELLO] * SESSIONS)
            seconds.append(time.perf_counter() - started)
            for result in results:
                if isinstance(result, OpenEnvError):
                    raise result
        return seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("rate", "turn"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()
    seconds = turns(arguments.url, arguments.steps)
    figure = statistics.median(seconds) if arguments.mode == "turn" else SESSIONS * len(seconds) / sum(seconds)
    print(json.dumps(figure))
