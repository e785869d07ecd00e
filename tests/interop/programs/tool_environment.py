"""An environment by tools, written with names that our package and the public one both have."""

from typing import Any

from fastmcp import FastMCP

from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.types import Action, Observation, State


class NotesEnvironment(MCPEnvironment):
    """Keeps notes."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        self._notes: list[str] = []
        server: Any = FastMCP("notes")
        for function in (self.write, self.read, self.untyped, self.fall):
            server.tool(function)
        super().__init__(server)

    def write(self, text: str, times: int = 1) -> int:
        """Write a note."""
        self._notes += [text] * times
        return len(self._notes)

    def read(self) -> dict[str, list[str]]:
        """Read all of them."""
        return {"notes": self._notes}

    def untyped(self, text: str):  # type: ignore[no-untyped-def]  # noqa: ANN201, RUF100  # which is the point
        """Say a text back."""
        return text

    def fall(self) -> str:
        """Fall."""
        raise ValueError("it's slippery")

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        self._notes.clear()
        self._episode_id = episode_id
        return Observation(metadata={"status": "ready"})

    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        return Observation()

    @property
    def state(self) -> State:
        return State(episode_id=self._episode_id, step_count=len(self._notes))
