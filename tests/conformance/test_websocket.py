"""The WebSocket server beneath ours keeps to RFC 6455: the cases of Autobahn's suite, driven by kosoku."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from kosoku import FailureError, run_fuzzingclient
from tests.chaos.server import ROOT

# Limits and speed take most of the time: of these the smallest and the one with the most messages are enough. Nor is
# there compression (12 and 13), which costs more than sending our short frames.
_CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.1.1", "9.2.1", "9.7.1", "10.*"]
_COUNT = 250
# A close frame amid a message in parts: the suite wants it answered in kind, websockets answers with a protocol error.
_DIFFERENT = ["7.1.5"]


@pytest.fixture
def echo_url() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.conformance.echo_server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"ws://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


async def test_every_case_passes_but_one(echo_url: str) -> None:
    with pytest.raises(FailureError) as failure:
        await run_fuzzingclient(echo_url, _CASES, concurrency=4)
    results = failure.value.results
    assert len(results) == _COUNT
    assert [result.case_id for result in results if not result.passed] == _DIFFERENT
