"""CPU time of an environment, in the metadata of its results."""

import asyncio
import time
from typing import Any

import pytest
from tests.support.environments.common import Do, Shown
from tests.support.environments.isolated import Isolated
from tests.support.servers import RunningServer

from openenv.core.client.generic import GenericEnvClient
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.execution.executors import InlineExecutor, ThreadExecutor
from openenv.core.env_server.execution.local_runner import LocalRunner
from openenv.core.env_server.execution.measured_runner import MeasuredRunner
from openenv.core.env_server.execution.runner import finished
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.wire.results import outcome_of

WORK_S = 0.01


class Work(Action):
    seconds: float = WORK_S


class Worked(Observation):
    pass


class Working(Environment[Work, Worked, State]):
    """Works for some seconds of CPU in each step."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self) -> Worked:
        return Worked(metadata={"level": 1})

    def step(self, action: Work) -> Worked:
        until = time.thread_time() + action.seconds
        while time.thread_time() < until:
            pass
        return Worked(reward=1.0)

    def snapshot(self) -> int:
        return 0

    def restore(self, snapshot: int) -> None:
        pass

    @property
    def state(self) -> State:
        return State()


class Inline(Working):
    BLOCKING = False


class WorkingAsync(Working):
    async def step_async(self, action: Work) -> Worked:
        await asyncio.sleep(0)
        return self.step(action)


async def cpu_s(started: Any) -> Any:
    return outcome_of(await finished(started)).metadata.get("cpu_s")


@pytest.mark.parametrize("environment", [Working, Inline])
async def test_cpu_is_summed_from_the_reset_on(environment: type[Working]) -> None:
    executor = InlineExecutor() if environment is Inline else ThreadExecutor("work")
    runner = MeasuredRunner(environment(), executor)
    assert outcome_of(await finished(runner.reset({}))).metadata.keys() == {"level", "cpu_s"}
    first, second = [await cpu_s(runner.step(Work(), {})) for _ in range(2)]
    assert WORK_S <= first <= second - WORK_S
    copied = await runner.copy(InlineExecutor(), None)
    assert await cpu_s(copied.step(Work(seconds=0.0), {})) >= second
    assert await cpu_s(runner.reset({})) < first
    await runner.close()


async def test_what_is_not_known_is_not_sent() -> None:
    waiting = MeasuredRunner(WorkingAsync(), InlineExecutor())
    assert await cpu_s(waiting.reset({})) is None
    assert await cpu_s(waiting.step(Work(), {})) is None
    restored = MeasuredRunner(Inline(), InlineExecutor())
    await restored.restore(await restored.snapshot())
    assert await cpu_s(restored.step(Work(), {})) is None
    assert await cpu_s(restored.reset({})) is not None
    assert await cpu_s(LocalRunner(Inline(), InlineExecutor()).reset({})) is None


def test_a_server_measures_where_it_is_set() -> None:
    app = create_fastapi_app(Working, Work, Worked, measure_cpu=True)
    with RunningServer(app) as server, GenericEnvClient(server.url).sync() as client:
        client.reset()
        found = [client.step({}).cpu_s for _ in range(2)]
    assert found[0] is not None
    assert found[1] is not None
    assert WORK_S <= found[0] <= found[1] - WORK_S


def test_a_process_measures_its_environment() -> None:
    app = create_fastapi_app(Isolated, Do, Shown, isolation="process", measure_cpu=True)
    with RunningServer(app) as server, GenericEnvClient(server.url, connect_timeout_s=60).sync() as client:
        assert client.reset().cpu_s is not None
        assert client.step({"what": "hello"}).cpu_s is not None
