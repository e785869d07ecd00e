"""A judge of groups: what it is shown, and how its scores are read."""

import json
import random
import re
from typing import Any

import pytest
from tests.support.models.judge_server import JudgeServer

from openenv.core.rubrics import GroupJudge, VerdictError

START = [{"role": "system", "content": "You climb."}, {"role": "user", "content": "Reach the top."}]


def rollout(*moves: str) -> list[dict[str, Any]]:
    return [*START, *({"role": "assistant", "content": move} for move in moves)]


def by_length(prompt: str) -> str:
    """Prefer attempts with more steps up."""
    attempts = re.findall(r'<attempt number="(\d+)">\n(.*?)\n</attempt>', prompt, re.DOTALL)
    return json.dumps({number: {"reason": "ups", "score": text.count("up") / 10} for number, text in attempts})


async def test_attempts_are_compared_without_what_they_share() -> None:
    group = [rollout("up", "up"), rollout("up"), rollout("up", "sleep"), rollout("up", "up")]
    judge = JudgeServer(by_length)
    with judge.server:
        verdict = await GroupJudge(judge.client()).compare(group)
        shuffled = random.Random(1).sample(range(4), 4)
        other = await GroupJudge(judge.client()).compare([group[place] for place in shuffled])
    assert verdict.scores == [0.1, 0.0, 0.0, 0.1]
    assert other.scores == [verdict.scores[place] for place in shuffled]
    assert judge.prompts[0] == judge.prompts[1], "so a cache finds it again"
    assert judge.prompts[0].count("Reach the top.") == 1
    assert judge.prompts[0].count("<attempt number") == 3
    assert "(nothing more)" in judge.prompts[0]
    assert verdict.reasons == ["ups"] * 4
    assert verdict.exchanges[0]["prompt"] == judge.prompts[0]


async def test_calls_of_tools_are_shown() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "climb", "arguments": {"move": "up"}}}
    judge = JudgeServer(by_length)
    with judge.server:
        group: list[list[dict[str, Any]]] = [
            rollout("wait"),
            [*START, {"role": "assistant", "content": "", "tool_calls": [call]}],
        ]
        assert (await GroupJudge(judge.client()).compare(group)).scores == [0.0, 0.1]
    assert 'assistant: calls climb({"move": "up"})' in judge.prompts[0]


async def test_equal_attempts_leave_nothing_to_compare() -> None:
    judge = JudgeServer(by_length)
    with judge.server:
        for group in ([rollout("up")] * 4, [rollout("up")], []):
            assert (await GroupJudge(judge.client()).compare(group)).scores == [None] * len(group)
    assert judge.prompts == []


async def test_a_group_may_be_too_large() -> None:
    with pytest.raises(ValueError, match="group of 4 to 8 rollouts, got 9"):
        await GroupJudge(JudgeServer([""]).client()).compare([rollout("up")] * 9)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("{}", "missing 1, 2"),
        ('{"1": {"score": 0.5}, "2": {"score": 2}}', "for attempt 2, got 2"),
        ('{"1": {"score": true}, "2": {"score": 1}}', "for attempt 1, got True"),
        ('{"1": {"score": NaN}, "2": {"score": 1}}', "for attempt 1, got nan"),
        ('{"1": {"score": 0.5}, "2": {"score": 1}, "3": {"score": 1}}', "unknown 3"),
        ('{"1": 0.5, "2": 1}', "for attempt 1, got None"),
    ],
)
async def test_a_malformed_verdict_is_an_error(answer: str, message: str) -> None:
    judge = JudgeServer([answer])
    with judge.server, pytest.raises(VerdictError, match=message):
        await GroupJudge(judge.client()).compare([rollout("up"), rollout("down")])
    assert len(judge.prompts) == 2
