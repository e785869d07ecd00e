"""What is tried, in the order in which it runs: a name and what makes the havoc."""

from collections.abc import Callable
from pathlib import Path

from tests.chaos import (
    bad_environments,
    clean_disconnect,
    cut_sockets,
    dropped_sessions,
    hostile_frames,
    interrupted_training,
    killed_database,
    killed_server,
)
from tests.chaos.effort import Effort

Scenario = Callable[[Effort, Path], str]
"""Makes havoc in a folder of its own, fails where something was harmed, and returns the counts."""

SCENARIOS: dict[str, Scenario] = {
    "sockets cut": cut_sockets.run,
    "server killed": killed_server.run,
    "database killed": killed_database.run,
    "sessions dropped": dropped_sessions.run,
    "bad environments": bad_environments.run,
    "hostile frames": hostile_frames.run,
    "clean disconnects": clean_disconnect.run,
    "training interrupted": interrupted_training.run,
}
