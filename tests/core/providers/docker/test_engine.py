"""An engine that fails, and one whose SDK is not there."""

import gc
import subprocess
import sys

import pytest
from tests.core.providers.docker.conftest import FailingEngine

from openenv._extras import install_command
from openenv.core.containers.runtime import LocalDockerProvider
from openenv.core.exceptions import ProviderError


def test_what_the_engine_says_is_told(failing_engine: FailingEngine) -> None:
    provider = LocalDockerProvider("small")
    with pytest.raises(ProviderError, match=r"^Docker can't look for the image small: the disk is full\.$"):
        provider.start_container()
    assert provider.container_name is None
    provider.close()


# The SDK drops the socket of a connection that could not be made without closing it. It is collected here: in a later
# test the warning would be an error.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_engine_that_goes_away_is_told(failing_engine: FailingEngine) -> None:
    provider = LocalDockerProvider("small")
    failing_engine.server_close()
    with pytest.raises(ProviderError, match=r"^Docker can't look for the image small: .*[Cc]onnection"):
        provider.start_container()
    provider.close()
    gc.collect()


def test_without_the_sdk_it_says_what_brings_it() -> None:
    program = """
import sys
sys.modules["docker"] = sys.modules["kubernetes"] = None
from openenv.core.containers.runtime import ContainerProvider, KubernetesProvider, LocalDockerProvider
from openenv.core.containers.runtime.providers import LocalDockerProvider as ByItsModule
assert issubclass(LocalDockerProvider, ContainerProvider)
for provider in (KubernetesProvider, LocalDockerProvider):
    try:
        provider(anything=1)
    except ImportError as error:
        print(provider.__name__, error, sep=": ")
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.stdout.splitlines() == [
        f"KubernetesProvider: This needs the Kubernetes client: {install_command('kubernetes')}",
        f"LocalDockerProvider: This needs the Docker SDK: {install_command('docker')}",
    ], finished.stderr
