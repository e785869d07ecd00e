"""Goal of an environment, which a model is shown before the first observation: its name and description."""

from collections.abc import Mapping
from typing import Any

from openenv.core.env_client import EnvClient

__all__ = ["goal_text", "served_goal"]


def goal_text(name: str, description: str) -> str:
    """Return the goal of an environment."""
    return f"You act in the environment {name}. {description}"


async def served_goal(client: EnvClient[Any, Any, Any], name: str = "") -> str:
    """Return the goal by what an environment's server publishes; by the name given here where it publishes none.

    Raises:
        ConnectionFailedError: The server can't be reached.
    """
    published = await client._metadata()
    found = published if isinstance(published, Mapping) else {}
    name = str(found.get("name") or name)
    return goal_text(name, str(found.get("description") or "")) if name else ""
