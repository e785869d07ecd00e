"""What judges' models use in an episode, beside the participants that an environment names."""

from typing import Any

import pytest

from openenv.core.env_server.execution.executors import InlineExecutor
from openenv.core.env_server.execution.local_runner import LocalRunner
from openenv.core.env_server.execution.runner import finished
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.llm_client import LLMClient, LLMResponse, TokenUsage
from openenv.core.rubrics import LLMJudge, Rubric
from openenv.core.rubrics.judge import Judge
from openenv.core.wire.results import ParticipantUsage, outcome_of, participants_of


class Counting(LLMClient):
    """A model whose server counts its tokens."""

    model = "judge"

    @property
    def identity(self) -> dict[str, Any]:
        return {"model": self.model}

    async def complete(self, prompt: str, **kwargs: Any) -> str:
        return (await self.respond(prompt)).content

    async def respond(self, prompt: str, **kwargs: Any) -> LLMResponse:
        if "lost" in prompt:
            raise ConnectionError("the server is gone")
        return LLMResponse("0.5", usage=TokenUsage(7, 1), cost_usd=0.25)


class Polite(Judge):
    """A judge of an author's own, without evidence of its own."""

    async def forward(self, action: Any, observation: Any) -> float:
        return float((await self.respond(str(action.text))).content)


class Mixed(Rubric):
    def __init__(self) -> None:
        self.polite = Polite(Counting("http://localhost", 1))
        self.right = LLMJudge("Is {action} right?", Counting("http://localhost", 1))

    async def forward(self, action: Any, observation: Any) -> float:
        return float(await self.polite(action, observation)) + float(await self.right(action, observation))


class Say(Action):
    text: str = ""


class Heard(Observation):
    text: str = ""


class Talk(Environment[Say, Heard, State]):
    BLOCKING = False
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__(rubric=Mixed())

    def reset(self) -> Heard:
        return Heard()

    async def step_async(self, action: Say) -> Heard:
        heard = Heard(metadata={"participants": {"user": {"replies": 1}}})
        heard.reward = await self._apply_rubric_async(action, heard)
        return heard

    def step(self, action: Say) -> Heard:
        raise NotImplementedError

    def snapshot(self) -> int:
        return 0

    def restore(self, snapshot: int) -> None:
        pass

    @property
    def state(self) -> State:
        return State()


async def used(runner: Any, text: str = "please") -> dict[str, ParticipantUsage]:
    outcome = outcome_of(await finished(runner.step(Say(text=text), {})))
    return participants_of(outcome.metadata["participants"])


async def test_judges_are_participants_beside_those_of_the_environment() -> None:
    runner = LocalRunner(Talk(), InlineExecutor())
    one = ParticipantUsage(1, 7, 1, 0.25, "judge")
    await finished(runner.reset({}))
    assert await used(runner) == {"polite": one, "right": one, "user": ParticipantUsage(1)}
    assert (await used(runner))["right"] == one + one
    await finished(runner.reset({}))
    assert (await used(runner))["right"] == one


async def test_a_restored_session_knows_what_its_judges_have_used() -> None:
    first, second = LocalRunner(Talk(), InlineExecutor()), LocalRunner(Talk(), InlineExecutor())
    await finished(first.reset({}))
    await used(first)
    await second.restore(await first.snapshot())
    assert (await used(second))["polite"] == ParticipantUsage(2, 14, 2, 0.5, "judge")


async def test_tokens_of_an_answer_that_does_not_come_are_not_known() -> None:
    judge = Polite(Counting("http://localhost", 1))
    with pytest.raises(ConnectionError):
        await judge(Say(text="lost"), None)
    assert judge.usage == ParticipantUsage(1, model="judge")
    assert judge.evidence() == {"prompt": "lost", "answer": None}
