"""Our ``/mcp`` keeps to the Model Context Protocol: the scenarios of its own conformance suite, from npm."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.servers import RunningServer
from tests.support.services.npm_packages import NpmProgram

from openenv import Environment, Observation, create_app, tool
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

SUITE = NpmProgram("@modelcontextprotocol/conformance", "0.1.16", "conformance")

# The others want what environments do not have: logging, completion, sampling, elicitation, subscriptions, results
# that are pictures or sounds, and prompts and resources of given names.
SCENARIOS = [
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "tools-call-with-progress",
    "server-sse-multiple-streams",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
]


class Wanted(Environment):
    """The tools that the suite calls."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(self, seed: int | None = None) -> Observation:
        return Observation()

    @tool
    def test_simple_text(self) -> str:
        """Say something."""
        return "This is a simple text response for testing."

    @tool
    def test_error_handling(self) -> None:
        """Fail."""
        raise RuntimeError("This tool intentionally returns an error for testing")

    @tool
    async def test_tool_with_progress(self) -> str:
        """Tell of progress."""
        for progress in (0.0, 0.5, 1.0):
            self.report_progress(progress)
            # Reports that a newer one overtakes are not sent; the suite wants all: leave the loop to what sends them.
            for _turn in range(100):
                await asyncio.sleep(0)
        return "done"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    SUITE.install()
    app = create_app(Wanted, CallToolAction, CallToolObservation, max_concurrent_envs=len(SCENARIOS))
    with RunningServer(app) as server:
        yield f"{server.url}/mcp"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_passes(scenario: str, url: str, tmp_path: Path) -> None:
    done = SUITE.run("server", "--url", url, "--scenario", scenario, "--verbose", home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"status": "SUCCESS"' in done.stdout
