"""An engine that fails, and one whose SDK is not there."""

import gc
import subprocess
import sys

import pytest
from tests.core.providers.docker.conftest import FailingEngine

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
    program = (
        "import sys; sys.modules['docker'] = None; from openenv.core.containers.runtime import LocalDockerProvider"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    said = finished.stderr.strip().splitlines()[-1]
    assert said == 'ImportError: This needs the Docker SDK: pip install "openenv-core[docker]"'
