"""A model behind transformers' own OpenAI-compatible server plays, in a process of its own, on the CPU."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.models.bigram_models import bigram_model
from tests.support.models.transformers_serve import transformers_serve
from tests.support.servers import RunningServer

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
    with transformers_serve(climber, tmp_path_factory.mktemp("cache")) as address:
        yield address


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
