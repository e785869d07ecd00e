"""The package's old name gives the very same modules and classes."""

import subprocess
import sys

PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import openenv_core
assert [warning.category for warning in caught] == [DeprecationWarning], caught
assert "openenv.core" in str(caught[0].message)

import openenv.core
import openenv.core.env_server.types
import openenv_core.client_types
import openenv_core.env_client
import openenv_core.env_server.types
import openenv_core.http_env_client
from openenv_core import EnvClient, HTTPEnvClient
from openenv_core.env_server import Environment
from openenv_core.env_server.http_server import create_app

assert EnvClient is openenv.core.EnvClient is openenv_core.env_client.EnvClient
assert issubclass(HTTPEnvClient, EnvClient) and HTTPEnvClient is openenv_core.http_env_client.HTTPEnvClient
assert Environment is openenv.core.Environment
assert create_app is openenv.core.create_app
assert openenv_core.env_server.types is openenv.core.env_server.types
assert openenv.core.env_server.types.__spec__.name == "openenv.core.env_server.types"
try:
    import openenv_core.no_such_module
except ModuleNotFoundError as error:
    assert "openenv.core.no_such_module" in str(error)
else:
    raise AssertionError("a module that is not there was imported")
print("the same")
"""


def test_old_name_gives_the_same_modules() -> None:
    """In a fresh interpreter: the import hook stays for the life of a process."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "the same\n"
