"""What an image of the tests' cluster runs: counters at ``POD_IP`` and ``PORT``, configured by variables alone."""

import os
import sys

from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv.core.env_server.app import create_fastapi_app, listen, run_app

if __name__ == "__main__":
    sys.stderr.write("the counter begins\n")
    with listen(os.environ["POD_IP"], int(os.environ["PORT"])) as listener:
        run_app(create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=64), listener=listener)
