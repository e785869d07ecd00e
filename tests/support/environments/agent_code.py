"""Environments in which agents run code, as public ones do; other processes can import them."""

import os
from typing import Any, ClassVar

from fastmcp import FastMCP

from openenv import Observation, State
from openenv.core.env_server.mcp_environment import MCPEnvironment

# As one that reads a file of variables does.
if "OPENENV_TEST_LOADS" in os.environ:
    os.environ[os.environ["OPENENV_TEST_LOADS"]] = "a-secret-of-the-module"


class Coder(MCPEnvironment):
    """A tool that adds, one that runs code, and one for its author's own look at the process."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        server: FastMCP[Any] = FastMCP("coder")

        @server.tool
        def add(a: int, b: int) -> int:
            return a + b

        @server.tool
        def run(code: str) -> dict[str, Any]:
            return self.execute_code(code).metadata

        @server.tool
        def process() -> int:
            return os.getpid()

        super().__init__(server)

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Observation:
        return Observation()

    def _step_impl(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        raise ValueError("There is nothing but tools.")

    @property
    def state(self) -> State:
        return State()


class Delegating(Coder):
    """Has another class call ``execute_code``, and says so."""

    CODE_SANDBOX: ClassVar[str | None] = "process"


def make_coder() -> Coder:
    return Coder()


def make_unknown():  # type: ignore[no-untyped-def]  # as public code does
    return Coder()
