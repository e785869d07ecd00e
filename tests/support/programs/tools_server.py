"""Serve an environment with tools until killed; prints the port first.

Arguments: the environment's name in ``tests.support.environments.tools``, the number of workers, and a journal or
nothing.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.support.environments import tools as tool_environments

from openenv.core.env_server.app import create_fastapi_app, listen, run_app, run_workers
from openenv.core.environment_types import environment_types


def main() -> None:
    environment = getattr(tool_environments, sys.argv[1])
    workers, journal = int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None
    types = environment_types(environment)
    make_app = partial(
        create_fastapi_app, environment, types.action, types.observation, 16, state_cls=types.state, journal=journal
    )
    with listen("127.0.0.1", 0) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        if workers == 1:
            run_app(make_app(), listener=listener)
        else:
            run_workers(make_app, workers, listener)


if __name__ == "__main__":
    main()
