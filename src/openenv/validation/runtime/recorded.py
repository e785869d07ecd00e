"""Episodes on record that an environment brings: its server still answers their requests as it did."""

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from openenv.core.addresses import socket_url
from openenv.validation.runtime.collector import MAX_MESSAGE_BYTES
from openenv.validation.runtime.transport import open_socket
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


def first_unlike(base_url: str, episodes: Recorded, timeout_s: float) -> str | None:
    """Send the requests of episodes once more, and name the first answer that is another.

    Args:
        base_url: The server's address.
        episodes: The episodes.
        timeout_s: Seconds that an answer may take.

    Raises:
        OSError: The server can't be reached, or does not answer in time.
        WebSocketException: It ends the connection.
        ValueError: An answer is no JSON.
    """
    for number, episode in enumerate(episodes):
        with open_socket(socket_url(base_url), {}, timeout_s=timeout_s, max_bytes=MAX_MESSAGE_BYTES) as connection:
            for step, (request, answer) in enumerate(episode):
                connection.send(json.dumps(request))
                found = next(differences(json.loads(answer), json.loads(connection.recv(timeout_s))), None)
                if found is not None:
                    return f"episode {number}, request {step}: {found[0]}: {found[1]}"
    return None
