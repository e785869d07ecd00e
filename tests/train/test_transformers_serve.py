"""A model behind transformers' own OpenAI-compatible server plays, in a process of its own, on the CPU."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.models.bigram_models import bigram_model
from tests.support.servers import RunningServer, eventually

from openenv.core.generic_client import GenericEnvClient
from openenv.train.agents.api_agent import ApiAgent
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.tools.environment_tools import EnvironmentTools

MOVES = ('"up"', '"wait"', '"fall asleep"')


@pytest.fixture(scope="module")
def climber(stairs_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that calls the tool of stairs, each time with a random move."""
    folder = tmp_path_factory.mktemp("climber")
    with GenericEnvClient(base_url=stairs_server.url).sync() as client:
        tokenizer = build_tool_tokenizer(EnvironmentTools.of(client).schemas(), ["step and of"])
    opening = '<tool_call>\n{"name": "climb", "arguments": {'
    table = {"<|im_start|>assistant\n": [opening], opening: ['"move": '], '"move": ': MOVES}
    model = bigram_model(tokenizer, {**table, **{move: ["}}\n</tool_call>"] for move in MOVES}})
    model.generation_config.do_sample = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def address(climber: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(climber), "--device", "cpu"]
    cache = tmp_path_factory.mktemp("cache")
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: process.poll() is not None or is_healthy(port), "the server is ready", 120)
        assert process.poll() is None
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait(60)


def is_healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").is_success
    except httpx.TransportError:
        return False


def test_a_served_model_plays_by_tool_calls(stairs_server: RunningServer, climber: Path, address: str) -> None:
    agent = ApiAgent(str(climber), base_url=address, concurrency=4, max_tokens=16, temperature=1.0, max_turns=30)
    tasks: list[dict[str, Any]] = [{"seed": seed} for seed in range(8)]
    with GenericEnvClient(base_url=stairs_server.url, capacity_wait_s=30.0).sync() as client:
        episodes = sorted(agent.episodes(client, tasks), key=lambda played: played.index)
    assert [played.episode.error for played in episodes] == [None] * 8
    turns = [turn for played in episodes for turn in played.episode.turns]
    assert {turn.action for turn in turns} == {f'climb {{"move": {move}}}' for move in MOVES}
    assert all((turn.problem is not None) == ("asleep" in turn.action) for turn in turns)
    assert [played.episode.done for played in episodes] == [True] * 8
