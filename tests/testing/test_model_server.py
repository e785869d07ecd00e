"""Server of a model that fails on purpose."""

from io import StringIO
from pathlib import Path
from typing import Any

import openai
import pytest
from rich.console import Console
from tests.support.environments.training import Climb, Stairs, StairsEnvironment
from tests.support.servers import RunningServer

from openenv.core.env_server import create_fastapi_app
from openenv.core.exceptions import ConfigurationError
from openenv.testing import MODEL_FAULTS, FaultyModelServer
from openenv.train.agents import model_api
from openenv.train.agents.api_agent import ApiAgent
from openenv.train.dataset.collecting import collect
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.settings.play_settings import PlaySettings

QUIET = Console(file=StringIO())


def climb(messages: Any, tools: Any) -> dict[str, Any]:
    function = {"name": "climb", "arguments": '{"move": "up"}'}
    return {"content": "", "tool_calls": [{"id": f"call{len(messages):05}", "type": "function", "function": function}]}


@pytest.fixture
def stairs() -> Any:
    with RunningServer(create_fastapi_app(StairsEnvironment, Climb, Stairs, max_concurrent_envs=64)) as server:
        yield server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits for a server that is full."""
    monkeypatch.setattr(model_api, "_BUSY_WAITS_S", (0.01,))


@pytest.mark.parametrize("name", MODEL_FAULTS)
def test_each_fault_is_the_failure_that_it_is_said_to_be(stairs: RunningServer, impatient: None, name: str) -> None:
    from openenv import make

    with FaultyModelServer(climb, faults=[name], share=1.0) as server, make(stairs.url).sync() as client:
        agent = ApiAgent("tiny", base_url=server.url, timeout_s=0.3 if name == "silent" else 30.0)
        (played,) = agent.episodes(client, [{"seed": 3}])
    assert played.episode.failure == MODEL_FAULTS[name]
    assert played.episode.turns == []
    assert server.counts[name] >= 3, "a request is repeated before its episode fails"


def test_failures_of_a_model_s_server_count_for_nothing(stairs: RunningServer, impatient: None, tmp_path: Path) -> None:
    with FaultyModelServer(climb, share=0.15, seed=3) as server:
        settings = PlaySettings(environment=stairs.url, model="tiny", llm_endpoint=server.url)
        evaluation = evaluate(settings, tmp_path / "e", num_tasks=24, console=QUIET)
        collected = collect(settings, 24, tmp_path / "c", console=QUIET)
    assert 0 < evaluation.failed == sum(evaluation.failures.values()) < 24
    assert evaluation.failures.keys() <= {kind.value for kind in MODEL_FAULTS.values()}
    assert all(reward > 0 for task in evaluation.tasks for reward in task.rewards), "each that counts was climbed"
    assert all(line["reward"] > 0 for line in collected.collection.read())
    assert collected.kept + collected.model_failed == 24


def test_a_full_server_is_outlived(stairs: RunningServer, impatient: None, tmp_path: Path) -> None:
    """The attempts of openai's package end, and a later one has an answer."""
    with FaultyModelServer(climb, faults=["full"], share=1.0, times=openai.DEFAULT_MAX_RETRIES + 1) as server:
        settings = PlaySettings(environment=stairs.url, model="tiny", llm_endpoint=server.url)
        evaluation = evaluate(settings, tmp_path / "e", num_tasks=2, console=QUIET)
    assert (evaluation.failed, evaluation.episodes) == (0, 2)
    assert server.counts["full"] == (openai.DEFAULT_MAX_RETRIES + 1) * server.counts[""]


def test_faults_that_there_are_none_of_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="Expected faults among full, "):
        FaultyModelServer(climb, faults=["typo"])
