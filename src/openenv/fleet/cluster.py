"""Ray, as a fleet uses it: a Ray that exists already, or one on this machine that ends with the fleet."""

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from openenv._extras import install_command
from openenv.core.env_server.access.policy import new_token
from openenv.core.exceptions import ConfigurationError, ProviderError

logger = logging.getLogger(__name__)

ADDRESS_VARIABLE = "RAY_ADDRESS"
"""Variable with the address of a Ray that runs already."""

# Variables for a Ray that the fleet starts, which its processes inherit. By the first one it takes the
# loopback address as its address, on Linux too, and then listens on nothing else.
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_OWN_VARIABLES = {
    _LOOPBACK: "0",
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
# Its clients have to show a token. Ray reads that once in a process, sets the mode itself, and would otherwise
# keep a token in the user's home.
_TOKEN, _AUTH_MODE = "RAY_AUTH_TOKEN", "RAY_AUTH_MODE"
_own_token = new_token()
# No objects are stored, and this is the least that Ray takes.
_OBJECT_STORE_BYTES = 80 * 1024 * 1024
# By itself Ray gives its workers, which the servers are here, less of a busy processor than anything else (15).
_RAY_CONFIG = {"worker_niceness": 0}
# Sockets lie below it, whose paths may have some hundred characters.
_LONGEST_TEMPORARY = 24


class Cluster:
    """Ray that a fleet uses.

    Attributes:
        is_started_here: Whether it was started for the fleet, on this machine, and ends with it.
    """

    def __init__(self) -> None:
        ray = import_ray()
        self.is_started_here = not ray.is_initialized() and not os.environ.get(ADDRESS_VARIABLE)
        self._leaves = not ray.is_initialized()
        self._folder: str | None = None
        self._before: dict[str, str | None] = {}
        try:
            if self.is_started_here:
                self._start(ray)
            elif self._leaves:
                ray.init(log_to_driver=True, logging_level=logging.ERROR)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise ProviderError(f"Ray could not be started or joined: {error}") from error
            raise

    @property
    def nodes(self) -> int:
        """Machines that it has now."""
        return sum(bool(node["Alive"]) for node in import_ray().nodes())

    def free_resources(self) -> str:
        """Describe its resources and the free ones, for an error."""
        ray = import_ray()
        has, left = ray.cluster_resources(), ray.available_resources()
        return (
            f"of {has.get('CPU', 0):g} processors {left.get('CPU', 0):g} are left, of "
            f"{has.get('memory', 0) / 2**30:.1f} GiB of memory {left.get('memory', 0) / 2**30:.1f}"
        )

    def close(self) -> None:
        """Leave it, and end it if it was started for the fleet. May be called twice."""
        if self._leaves:
            import_ray().shutdown()
        self._leaves = False
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        _set_back(self._before)
        self._before = {}

    def _start(self, ray: ModuleType) -> None:
        variables = {**_OWN_VARIABLES, _TOKEN: os.environ.get(_TOKEN, _own_token)}
        self._before = {name: os.environ.get(name) for name in (*variables, _AUTH_MODE)}
        os.environ.update(variables)
        self._folder = tempfile.mkdtemp(prefix="oe-", dir=_short_folder())
        settings: dict[str, Any] = {
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE_BYTES,
            "_system_config": _RAY_CONFIG,
        }
        ray.init(address="local", _temp_dir=self._folder, log_to_driver=True, logging_level=logging.ERROR, **settings)


def import_ray() -> ModuleType:
    """Import Ray, which reads from the environment, once, whether to listen on the loopback address only.

    Raises:
        ConfigurationError: It is not installed.
    """
    if "ray" in sys.modules or os.environ.get(ADDRESS_VARIABLE):
        return _imported()
    before = os.environ.get(_LOOPBACK)
    os.environ[_LOOPBACK] = _OWN_VARIABLES[_LOOPBACK]
    try:
        return _imported()
    finally:
        _set_back({_LOOPBACK: before})


def _imported() -> ModuleType:
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"A fleet needs Ray ({error}): {install_command('ray')}") from error


def _set_back(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _short_folder() -> str | None:
    """Return a folder with a short path; ``None`` for that of temporary files."""
    usual = tempfile.gettempdir()
    return "/tmp" if len(usual) > _LONGEST_TEMPORARY and Path("/tmp").is_dir() else None  # noqa: S108  # that of mkdtemp
