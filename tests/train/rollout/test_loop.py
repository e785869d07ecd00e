"""The loop, with agents that block and agents that wait."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, OpenEnvError, ServerExecutionError
from openenv.train.forms.moves import Move
from openenv.train.rollout.loop import play_episodes, play_together
from openenv.train.rollout.play import Play

FAILED = ServerExecutionError("closed", code="EXECUTION_ERROR")


class CountingAgent:
    """Makes the moves 1, 2, ... in each episode, two in an answer."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.acted: list[list[int]] = []
        self.seen: list[list[int]] = []

    def begin(self, plays: Sequence[Play]) -> None:
        self.begun = [play.number for play in plays]

    async def act(self, plays: Sequence[Play]) -> list[list[Move]]:
        self.acted.append([play.number for play in plays])
        return [[Move(str(count), count) for count in self._next(play)] for play in plays]

    def see(self, plays: Sequence[Play]) -> None:
        self.seen.append([play.number for play in plays])

    def _next(self, play: Play) -> range:
        before = len(play.results)
        return range(before + 1, before + 3)


class WaitingAgent(CountingAgent):
    """The same, after others had their turn in the event loop."""

    async def act(self, plays: Sequence[Play]) -> list[list[Move]]:
        await asyncio.sleep(0)
        return await super().act(plays)


class Countdowns:
    """Each ends at its own number of steps; one without a number has no reset."""

    def __init__(self, ends: Sequence[int | None]) -> None:
        self.ends = ends
        self.steps: list[Mapping[int, int]] = []

    def try_reset(self, tasks: Sequence[Mapping[str, Any]]) -> list[StepResult[Any] | OpenEnvError]:
        assert len(tasks) == len(self.ends)
        return [FAILED if end is None else StepResult(0, 0.0, done=end == 0) for end in self.ends]

    def step(self, actions: Mapping[int, int]) -> dict[int, StepResult[Any] | OpenEnvError]:
        self.steps.append(dict(actions))
        return {number: StepResult(action, 1.0, action == self.ends[number]) for number, action in actions.items()}


class AwaitedCountdowns(Countdowns):
    """The same, for the loop itself."""

    async def reset(self, tasks: Sequence[Mapping[str, Any]]) -> list[StepResult[Any] | OpenEnvError]:
        await asyncio.sleep(0)
        return self.try_reset(tasks)

    async def step(  # type: ignore[override]
        self, actions: Mapping[int, int]
    ) -> dict[int, StepResult[Any] | OpenEnvError]:
        await asyncio.sleep(0)
        return super().step(actions)


def plays_of(count: int) -> list[Play]:
    return [Play({"seed": number}, number=number, max_turns=5) for number in range(count)]


def check(agent: CountingAgent, plays: Sequence[Play], steps: Sequence[Mapping[int, int]]) -> None:
    assert agent.begun == [0, 1, 2, 3, 4], "an agent is shown the episodes that take no moves, too"
    assert agent.acted == agent.seen == [[1, 2, 4], [2, 4], [4]]
    assert steps == [{1: 1, 2: 1, 4: 1}, {2: 2, 4: 2}, {2: 3, 4: 3}, {4: 4}, {4: 5}]
    assert [len(play.episode.turns) for play in plays] == [0, 1, 3, 0, 5]
    assert [play.episode.done for play in plays] == [True, True, True, False, False]
    assert [play.episode.error for play in plays] == [None, None, None, FAILED, None]
    assert [play.episode.cut_by for play in plays] == [None, None, None, None, "max_turns"]


ENDS = [0, 1, 3, None, 9]


def test_episodes_are_stepped_together_until_each_is_over() -> None:
    agent, plays, sessions = CountingAgent(), plays_of(5), Countdowns(ENDS)
    play_together(agent, plays, sessions)
    check(agent, plays, sessions.steps)


async def test_agents_and_sessions_may_wait_in_an_event_loop() -> None:
    agent, plays, sessions = WaitingAgent(), plays_of(5), AwaitedCountdowns(ENDS)
    await play_episodes(agent, plays, sessions)
    check(agent, plays, sessions.steps)


def test_an_agent_that_waits_is_refused_where_nothing_could_wake_it() -> None:
    with pytest.raises(ConfigurationError, match="use play_episodes"):
        play_together(WaitingAgent(), plays_of(1), Countdowns([2]))


def test_episodes_that_fail_harm_no_other() -> None:
    plays = plays_of(3)
    play_together(CountingAgent(), plays, Countdowns([None, 1, None]))
    assert [play.episode.failure for play in plays] == ["reset", None, "reset"]
    assert plays[1].episode.done


def test_no_episodes_are_played_at_once() -> None:
    agent = CountingAgent()
    play_together(agent, [], Countdowns([]))
    assert agent.acted == []
