"""Episodes on record that an environment brings: its server still answers their requests as it did."""

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from openenv.validation.conformance.server import Server
from openenv.validation.trials import differences

RECORD = "tests/golden_episodes.json"
_EPISODES = TypeAdapter(list[list[tuple[dict[str, Any], str]]])

Recorded = list[list[tuple[dict[str, Any], str]]]


def read_recorded(folder: Path) -> Recorded | None:
    """Read the episodes on record: lists of requests of the socket, each with its answer as text.

    Args:
        folder: The environment's folder.

    Returns:
        The episodes; ``None`` where the folder has no such file.
    """
    try:
        return _EPISODES.validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def first_unlike(server: Server, episodes: Recorded) -> str | None:
    """Send the requests of episodes once more, and name the first answer that is another.

    Args:
        server: The server.
        episodes: The episodes.

    Raises:
        NoAnswerError: It can't be reached, ends the connection, or answers not in time or not in JSON.
    """
    for number, episode in enumerate(episodes):
        with server.socket() as socket:
            for step, (request, answer) in enumerate(episode):
                found = next(differences(json.loads(answer), socket.exchange(request)), None)
                if found is not None:
                    return f"episode {number}, request {step}: {found[0]}: {found[1]}"
    return None
