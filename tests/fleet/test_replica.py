"""How a server of a fleet is ended by force: it alone, whatever process has its number by then."""

import os
import subprocess
import sys
from typing import Any

from openenv.core.providers.resources import Resources
from openenv.fleet.plan import ServerPlan
from openenv.fleet.replica import Replica
from openenv.fleet.replica_server import StartedReplica

WAITS = [sys.executable, "-c", "input()"]


def test_a_process_that_got_the_number_of_one_that_has_ended_is_left_alone() -> None:
    with (
        subprocess.Popen(WAITS, stdin=subprocess.PIPE) as ended,
        subprocess.Popen(WAITS, stdin=subprocess.PIPE) as bystander,
    ):
        descriptor = os.pidfd_open(ended.pid)
        ended.kill()
        ended.wait()
        replica: Any = Replica(ServerPlan("echo", None, {}, Resources()), 0)
        replica._actor, replica._process = object(), descriptor
        replica.started = StartedReplica("127.0.0.1", 1, bystander.pid, "here", 1)
        replica.kill()
        assert bystander.poll() is None
        bystander.communicate(b"\n", timeout=60)
        assert bystander.returncode == 0
