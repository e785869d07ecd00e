"""What a sandbox costs: ``python -m benchmarks.sandbox``."""

import os
import statistics
import time
from collections.abc import Callable

import psutil

from openenv.core.sandbox import Sandbox, SandboxPool

ROUNDS = 20


def milliseconds(action: Callable[[], object]) -> float:
    """Return how long one call takes."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def median(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median of some calls, in milliseconds."""
    return statistics.median(milliseconds(action) for _ in range(rounds))


def warm_starts(pool: SandboxPool) -> list[float]:
    """Return how long taking a sandbox takes while the pool has one, and its first piece of code."""
    times = []
    for _ in range(ROUNDS):
        while not pool.ready:
            time.sleep(0.01)
        times.append(milliseconds(lambda: pool.take().close()))
    return times


def memory_of_sandboxes() -> float:
    """Return the proportional memory of this process's sandboxes, in MiB."""
    processes = psutil.Process(os.getpid()).children(recursive=True)
    return sum(process.memory_full_info().pss for process in processes) / 2**20


def main() -> None:
    """Measure, and print the figures."""
    print(f"start of a sandbox, cold       {median(lambda: Sandbox().close()):8.1f} ms")
    with SandboxPool(1) as pool:
        pool.warm()
        print(f"the same from a warm pool      {statistics.median(warm_starts(pool)):8.1f} ms")
    with Sandbox() as sandbox:
        sandbox.python("print(1)")
        print(f"print(1) in the interpreter    {median(lambda: sandbox.python('print(1)')):8.1f} ms")
        print(f"echo 1 in the shell            {median(lambda: sandbox.shell('echo 1')):8.1f} ms")
        command = ["python3", "-c", "print(1)"]
        print(f"python3 -c 'print(1)'          {median(lambda: sandbox.run(command)):8.1f} ms")
        endless = median(lambda: sandbox.python("while True: pass", wall_s=1), rounds=3)
        print(f"an endless loop, beyond its 1 s{endless - 1000:8.1f} ms")
    many = [Sandbox() for _ in range(8)]
    for sandbox in many:
        sandbox.python("print(1)")
    print(f"memory of a session            {memory_of_sandboxes() / len(many):8.1f} MiB")
    for sandbox in many:
        sandbox.close()


if __name__ == "__main__":
    main()
