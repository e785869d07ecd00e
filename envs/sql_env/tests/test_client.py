"""The environment over the wire."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient
from sql_env import QueryAction, SchemaAction, SqlEnv, SubmitAction, SubmitQueryAction
from sql_env.player import make_player, query_for
from sql_env.server.sql_environment import SqlEnvironment


def alone(seed: int) -> list[str]:
    """The episode that the player plays, without a server."""
    environment, player = SqlEnvironment(), make_player(seed)
    shown = [environment.reset(seed=seed)]
    while not shown[-1].done:
        shown.append(environment.step(player(shown[-1])))
    return [observation.model_dump_json(exclude={"metadata"}) for observation in shown]


async def test_64_sessions_at_once_are_as_64_alone(sql_url: str) -> None:
    async with SqlEnv(base_url=sql_url) as client:
        vector = await client.vector(64)
        players = [make_player(seed) for seed in range(64)]
        results: list[Any] = list(await vector.reset(seeds=list(range(64))))
        shown = [[result.observation] for result in results]
        for _ in range(2):
            results = list(await vector.step([player(seen[-1]) for player, seen in zip(players, shown, strict=True)]))
            for seen, result in zip(shown, results, strict=True):
                seen.append(result.observation)
    assert [result.reward for result in results] == [1.0] * 64
    for seed, seen in enumerate(shown):
        assert [one.model_dump_json(exclude={"metadata"}) for one in seen] == alone(seed)


async def test_every_action_travels(sql_url: str) -> None:
    async with SqlEnv(base_url=sql_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step(SchemaAction())
        first = (await env.reset(seed=5, difficulty="medium", max_queries=3)).observation
        table = next(iter(first.tables))
        assert (await env.step(SchemaAction(table=table))).observation.text.startswith(f"CREATE TABLE {table}")
        rows = (await env.step(QueryAction(sql="SELECT 1, 'a', NULL, 0.5, X'00'"))).observation.rows
        assert rows == [[1, "a", None, 0.5, "X'00'"]]
        with pytest.raises(RequestRejectedError, match="Expected one statement that reads") as refused:
            await env.step(QueryAction(sql="DROP TABLE customers"))
        assert refused.value.code == "VALIDATION_ERROR"
        sql = query_for(first.question)
        assert sql is not None
        assert (await env.state()).queries_left == 2
        end = await env.step(SubmitQueryAction(sql=sql))
        assert (end.reward, end.done, end.observation.correct) == (1.0, True, True)


async def test_a_hog_does_not_stop_others(sql_url: str) -> None:
    hog = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    async with SqlEnv(base_url=sql_url) as one, SqlEnv(base_url=sql_url) as other:
        await one.reset(seed=1)
        await other.reset(seed=2)
        running = asyncio.create_task(one.step(QueryAction(sql=hog)))
        answered = await other.step(SubmitAction(answer="no"))
        assert answered.done
        assert (await running).observation.error is not None


async def test_forks_answer_for_themselves(sql_url: str) -> None:
    async with SqlEnv(base_url=sql_url) as env:
        question = (await env.reset(seed=4)).observation.question
        (fork,) = await env.fork(1)
        sql = query_for(question)
        assert sql is not None
        assert (await env.step(SubmitAction(answer="no"))).reward == 0.0
        assert (await fork.step(SubmitQueryAction(sql=sql))).reward == 1.0


async def test_agents_find_four_tools(sql_url: str) -> None:
    async with MCPToolClient(base_url=sql_url) as env:
        await env.reset(seed=1)
        tools = {tool.name: tool for tool in await env.list_tools()}
        assert set(tools) == {"query", "schema", "submit", "submit_query"}
        assert set(tools["query"].input_schema["properties"]) == {"sql"}
        assert "one value" in json.dumps(tools["submit"].input_schema).lower()


async def test_tasks_are_listed_without_their_questions(sql_url: str) -> None:
    async with httpx.AsyncClient(base_url=sql_url) as http:
        splits = (await http.get("/sql_env/splits")).json()
        assert [split["name"] for split in splits] == ["train", "validation", "test"]
        task = (await http.post("/sql_env/task", json={"split": "test", "index": 3})).json()["task"]
        assert task == {"split": "test", "index": 3}
    async with GenericEnvClient(base_url=sql_url) as env:
        first, same = [(await env.reset(**task)).observation["question"] for _ in range(2)]
        assert first == same
