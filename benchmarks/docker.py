"""What containers cost: ``python -m benchmarks.docker IMAGE``, with the image of the echo environment."""

import statistics
import sys
import time
from collections.abc import Callable

from openenv import GenericEnvClient
from openenv.core.containers.runtime import DockerPool, LocalDockerProvider
from openenv.core.providers.base import Provider

ROUNDS = 5
STEPS = 300


def seconds(action: Callable[[], object]) -> float:
    """Return how long one call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def to_first_step(provider: Provider) -> tuple[float, float, float]:
    """Return the seconds from nothing to the first step's answer, of one more step, and of the end."""
    started = time.perf_counter()
    client = GenericEnvClient(provider=provider).sync()
    client.reset()
    client.step({"message": "hello"})
    first = time.perf_counter() - started
    step = seconds(lambda: [client.step({"message": "hello"}) for _ in range(STEPS)]) / STEPS
    return first, step, seconds(client.close)


def show(what: str, rounds: list[tuple[float, float, float]]) -> None:
    """Print the medians of some rounds."""
    first, step, end = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"{what:<30} first step after {first:6.2f} s   a step {step * 1e6:6.0f} µs   removed in {end:5.2f} s")


def main() -> None:
    """Measure, and print the figures."""
    image = sys.argv[1]
    for what, network in (("cold", "bridge"), ("cold, without a network", "none")):
        show(what, [to_first_step(LocalDockerProvider(image, network=network)) for _ in range(ROUNDS)])
    for what, network in (("from a warm pool", "bridge"), ("the same, without a network", "none")):
        with DockerPool(image, size=2, network=network) as pool:
            rounds = []
            for _ in range(ROUNDS):
                pool.wait_until_full()
                rounds.append(to_first_step(pool.container()))
            show(what, rounds)


if __name__ == "__main__":
    main()
