"""The session that all callers of the public package's page share, from Python."""

import asyncio

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv.core.env_server.web_interface import EpisodeState, WebInterfaceManager
from openenv.core.exceptions import EnvironmentFailedError, InvalidRequestError, ResetNeededError


def new_manager() -> WebInterfaceManager:
    return WebInterfaceManager(CounterEnvironment, Add, Total)


async def test_an_episode_is_played_and_logged() -> None:
    manager = new_manager()
    assert manager.episode_state == EpisodeState()
    began = await manager.reset_environment({"episode_id": "e", "seed": 3, "unknown": 1})
    seeded = {"metadata": {"seed": 3}}
    assert began == {"observation": {"total": 0, **seeded}, "reward": None, "done": False, **seeded}
    assert manager.episode_state.is_reset

    await manager.step_environment({"amount": 4})
    ended = await manager.step_environment({"amount": 6})
    assert ended == {"observation": {"total": 10, "metadata": {}}, "reward": 6, "done": True}
    state = manager.episode_state
    assert (state.episode_id, state.step_count, state.current_observation) == ("e", 2, ended["observation"])
    assert not state.is_reset
    logs = [(log.action, log.observation["total"], log.reward, log.done, log.step_count) for log in state.action_logs]
    assert logs == [({"amount": 4}, 4, 4.0, False, 1), ({"amount": 6}, 10, 6.0, True, 2)]
    assert manager.get_state()["step_count"] == 2

    await manager.reset_environment()
    assert (manager.episode_state.action_logs, manager.episode_state.is_reset) == ([], True)


async def test_what_an_error_leaves() -> None:
    manager = new_manager()
    with pytest.raises(RuntimeError, match="reset the environment first"):
        manager.get_state()
    with pytest.raises(ResetNeededError):
        await manager.step_environment({"amount": 1})
    await manager.reset_environment()
    with pytest.raises(InvalidRequestError):
        await manager.step_environment({"amount": "many"})
    with pytest.raises(EnvironmentFailedError, match="kaboom"):
        await manager.step_environment({"amount": 0})
    assert manager.episode_state.action_logs == []
    assert (await manager.step_environment({"amount": 2}))["observation"]["total"] == 2


async def test_only_the_last_thousand_steps_are_kept() -> None:
    manager = WebInterfaceManager(EndlessEnvironment, Add, Total)
    await manager.reset_environment()
    for _ in range(1001):
        await manager.step_environment({"amount": 1})
    numbers = [log.step_count for log in manager.episode_state.action_logs]
    assert (numbers[0], numbers[-1], len(numbers)) == (2, 1001, 1000)


async def test_callers_at_once_take_turns() -> None:
    manager = new_manager()
    await manager.reset_environment()
    answers = await asyncio.gather(*(manager.step_environment({"amount": 1}) for _ in range(5)))
    assert [answer["observation"]["total"] for answer in answers] == [1, 2, 3, 4, 5]


class EndlessEnvironment(CounterEnvironment):
    def step(self, action: Add, timeout_s: float | None = None) -> Total:
        return Total(total=action.amount)
