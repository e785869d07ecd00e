"""Episodes on record: a seed and actions give the same answers, byte for byte, in every version."""

import json
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

EPISODES = json.loads(Path(__file__).with_name("golden_episodes.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("episode", EPISODES)
def test_requests_are_answered_as_on_record(episode: list[tuple[dict[str, Any], str]], game_2048_url: str) -> None:
    with connect(f"{game_2048_url.replace('http', 'ws', 1)}/ws", proxy=None) as socket:
        for request, answer in episode:
            socket.send(json.dumps(request))
            assert socket.recv(timeout=60) == answer
