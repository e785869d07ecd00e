"""The environment over the wire."""

import subprocess
import sys
from typing import Any

import httpx
import pytest

from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError
from reasoning_gym_env import AnswerAction, ReasoningGymEnv
from reasoning_gym_env.player import make_player
from reasoning_gym_env.server.reasoning_gym_environment import ReasoningGymEnvironment

pytestmark = pytest.mark.needs("reasoning-gym")


@pytest.mark.parametrize("dataset", ["chain_sum", "pool_matrix", "list_functions"])
async def test_64_sessions_at_once_are_as_64_alone(reasoning_gym_url: str, dataset: str) -> None:
    async with ReasoningGymEnv(base_url=reasoning_gym_url) as client:
        vector = await client.vector(64)
        asked: list[Any] = list(await vector.reset(seeds=list(range(64)), tasks=[{"dataset": dataset}] * 64))
        answered: list[Any] = list(await vector.step([AnswerAction(answer="5")] * 64))
    environment = ReasoningGymEnvironment()
    for seed in range(64):
        assert asked[seed].observation.text == environment.reset(seed=seed, dataset=dataset).text
        alone = environment.step(AnswerAction(answer="5"))
        assert (answered[seed].reward, answered[seed].done) == (alone.reward, True)
        assert answered[seed].metadata["answer"] == alone.metadata["answer"]


async def test_an_episode_travels(reasoning_gym_url: str) -> None:
    async with ReasoningGymEnv(base_url=reasoning_gym_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step(AnswerAction(answer="5"))
        asked = await env.reset(seed=4, dataset="gcd", config={"size": 10})
        with pytest.raises(RequestRejectedError, match="Did you mean"):
            await env.reset(dataset="gdc")
        assert (await env.state()).model_dump(exclude={"episode_id"}) == {
            "step_count": 0,
            "dataset": "gcd",
            "split": "train",
            "index": 4,
        }
        result = await env.step(make_player(1)(asked.observation))
        assert (result.reward, result.done) == (1.0, True)


async def test_tasks_are_listed_by_their_places(reasoning_gym_url: str) -> None:
    async with httpx.AsyncClient(base_url=reasoning_gym_url) as http:
        splits = (await http.get("/reasoning_gym_env/splits")).json()
        count = (await http.post("/reasoning_gym_env/num_tasks", json={"split": "test"})).json()
    assert [split["name"] for split in splits] == ["train", "validation", "test"]
    assert count == {"num_tasks": 500}


def test_a_client_does_without_reasoning_gym() -> None:
    program = "import sys, reasoning_gym_env.player; print(*{'reasoning_gym', 'sympy', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""
