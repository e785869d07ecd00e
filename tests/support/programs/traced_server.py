"""Serve counters with traces until killed; prints the port first. Argument: the file of traces."""

import sys

from openenv.core.env_server.app import create_fastapi_app, listen, run_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Add(Action):
    """Add to the total."""

    amount: int


class Total(Observation):
    """The total so far."""

    total: int


class Counting(Environment[Add, Total, State]):
    """Counts up to ten."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    total = 0

    def reset(self, seed: int | None = None) -> Total:
        self.total = 0
        return Total(total=0)

    def step(self, action: Add) -> Total:
        self.total += action.amount
        return Total(total=self.total, reward=action.amount, done=self.total >= 10)

    @property
    def state(self) -> State:
        return State()


def main() -> None:
    app = create_fastapi_app(Counting, Add, Total, max_concurrent_envs=64, traces=sys.argv[1])
    with listen("127.0.0.1", 0) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        run_app(app, listener=listener)


if __name__ == "__main__":
    main()
