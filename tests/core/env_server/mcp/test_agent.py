"""An agent's session, without any transport."""

from typing import Any, ClassVar

import pytest
from pydantic import Field
from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.mcp.agent import Agent, Served, task_of
from openenv.core.env_server.sessions.about import About
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import Observation, State
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import InvalidRequestError, SessionNotFoundError


def serve(max_sessions: int = 4) -> Served:
    types = EnvironmentTypes(Add, Total, State)
    sessions = SessionManager(EnvironmentFactory(CounterEnvironment), types, ServerConfig(max_sessions=max_sessions))
    return served_by(sessions, "counter")


def served_by(sessions: SessionManager, name: str) -> Served:
    return Served(sessions, name, allows_state=False, about=About(sessions, name))


async def test_a_session_that_ended_is_not_opened_again() -> None:
    served = serve()
    agent = Agent(served, None)
    ended = []
    agent.on_end = lambda: ended.append(True)
    served.sessions.close(await agent.session())
    assert ended == [True]
    with pytest.raises(SessionNotFoundError, match="Connect again"):
        await agent.session()
    assert len(served.sessions) == 0


async def test_its_own_end_is_no_news() -> None:
    served = serve()
    agent = Agent(served, None)
    agent.on_end = lambda: pytest.fail("nobody asked")
    await agent.session()
    agent.close()
    assert len(served.sessions) == 0
    await served.sessions.close_all()


async def test_once_it_has_gone_nothing_is_opened() -> None:
    served = serve()
    agent = Agent(served, None)
    agent.close()
    with pytest.raises(SessionNotFoundError):
        await agent.session()
    assert len(served.sessions) == 0


async def test_what_the_reset_showed() -> None:
    served = serve()
    agent = Agent(served, None, {"seed": 3})
    assert (await agent.first_observation()).text == '{"total":0}'
    bound = Agent(served, None, session_id="zzz")
    with pytest.raises(SessionNotFoundError):
        await bound.first_observation()
    agent.close()
    await served.sessions.close_all()


class Board(Observation):
    pieces: list[str] = Field(default_factory=list)
    text: str = ""


class Puzzle(CounterEnvironment):
    """Shows what its class says."""

    shown: ClassVar[Observation]

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Any:
        return self.shown


@pytest.mark.parametrize(
    ("shown", "read"),
    [
        (Board(metadata={"answer": "crane"}), '{"pieces":[],"text":""}'),
        (Board(text="Guess.", metadata={"answer": "crane"}), "Guess."),
        (Board(text="Guess.", pieces=["a"], metadata={"answer": "crane"}), '{"pieces":["a"],"text":"Guess."}'),
        (Observation(metadata={"task": "Guess."}), '{"metadata":{"task":"Guess."}}'),
        (Observation(), '{"metadata":{}}'),
    ],
)
async def test_metadata_is_shown_only_where_there_can_be_nothing_else(shown: Observation, read: str) -> None:
    Puzzle.shown = shown
    sessions = SessionManager(EnvironmentFactory(Puzzle), EnvironmentTypes(Add, Total, State), ServerConfig())
    agent = Agent(served_by(sessions, "puzzle"), None)
    assert (await agent.first_observation()).text == read
    await sessions.close_all()


@pytest.mark.parametrize(
    ("query", "task"),
    [
        ({}, {}),
        ({"session_id": "x"}, {}),
        ({"seed": "3", "episode_id": "5"}, {"seed": 3, "episode_id": "5"}),
        ({"split": "train", "index": "0"}, {"split": "train", "index": 0}),
        ({"hard": "true", "none": "null", "ratio": "0.5"}, {"hard": True, "none": None, "ratio": 0.5}),
        ({"a": "NaN", "b": "01", "c": "", "d": '"x"', "e": "{"}, {"a": "NaN", "b": "01", "c": "", "d": "x", "e": "{"}),
        ({"list": '["a"]'}, {"list": ["a"]}),
    ],
)
def test_a_task_in_a_query(query: dict[str, str], task: dict[str, object]) -> None:
    assert task_of(query) == task


@pytest.mark.parametrize("seed", ["-1", "x", "1.5", ""])
def test_a_seed_that_can_t_be(seed: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"names a task that can't be: seed: "):
        task_of({"seed": seed})
