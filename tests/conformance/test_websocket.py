"""The WebSocket server beneath ours keeps to RFC 6455: the cases of Autobahn's suite, driven by kosoku."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.server import ROOT

# Limits and speed take most of the time: of these the smallest and the one with the most messages are enough. Nor is
# there compression (12 and 13), which costs more than sending our short frames.
_CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.1.1", "9.2.1", "9.7.1", "10.*"]
_COUNT = 250
# A close frame amid a message in parts: the suite wants it answered in kind, websockets answers with a protocol error.
_DIFFERENT = ["7.1.5"]
_PASSED = {"OK", "NON-STRICT", "INFORMATIONAL"}


@pytest.fixture
def echo_url() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.support.programs.echo_server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"ws://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


def test_every_case_passes_but_one(echo_url: str, tmp_path: Path) -> None:
    # In a process of its own: it puts a `pkg_resources` of its own among the modules.
    command = [str(Path(sys.executable).with_name("kosoku")), echo_url, "--parallelism", "4", "--outdir", str(tmp_path)]
    command += [f"--include={case}" for case in _CASES]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (tmp_path / "index.json").exists(), finished.stdout + finished.stderr
    (results,) = json.loads((tmp_path / "index.json").read_text()).values()
    assert len(results) == _COUNT
    behaviors = {case: {result["behavior"], result["behaviorClose"]} for case, result in results.items()}
    assert [case for case, seen in behaviors.items() if not seen <= _PASSED] == _DIFFERENT
