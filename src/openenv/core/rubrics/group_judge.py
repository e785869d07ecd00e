"""``GroupJudge``: a language model compares the rollouts of a task with each other, and scores each.

To say which of several attempts is better takes no reference and no scale, so a comparison can be the only reward of a
task, as in RULER (https://art.openpipe.ai/fundamentals/ruler).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from openenv.core.llm_client import LLMClient
from openenv.core.rubrics.verdicts import VerdictError, check_names, json_verdict, request_verdict

__all__ = ["MOST_COMPARED", "GroupJudge", "GroupVerdict"]

Message = Mapping[str, Any]

MOST_COMPARED = 8
"""Beyond these the scores of a comparison get unreliable; from four on they say more than which is best."""

DEFAULT_RULES = """- A rollout that reaches the goal is better than any that does not.
- Of those that reach it, the shorter and more direct is better.
- One that comes closer to it is better than one that stays far off.
- What a rollout says of itself is no evidence that it reached the goal."""

_PROMPT = """You compare attempts at the same task, and score each.

<rules>
{rules}
</rules>
{context}
{rollouts}

Give each attempt a score from 0 to 1, so that a better attempt has a higher score; equally good ones may have the same.
Answer with one object of JSON and nothing else, with a reason first, of this form:
{form}"""


@dataclass(frozen=True)
class GroupVerdict:
    """Scores of the rollouts of a group.

    Attributes:
        scores: A score from 0 to 1 for each rollout; ``None`` for each where all rollouts are the same, which leaves
            nothing to compare.
        reasons: The judge's reason for each; empty where there is none.
        exchanges: What the judge was sent and answered.
    """

    scores: list[float | None]
    reasons: list[str]
    exchanges: list[dict[str, Any]]


class GroupJudge:
    """Compares the rollouts of a group by a language model.

    What all rollouts begin with is shown once. Rollouts that are the same are shown once and share their score. Their
    order does not depend on that of the group, so neither do the scores, and a cache finds a group again.

    Args:
        client: Client of the model, such as a ``LimitedClient``.
        rules: What makes a rollout better, in words.
        attempts: Answers after which a verdict that can't be read is an error.

    Example::

        judge = GroupJudge(LimitedClient(OpenAIClient("http://localhost", 8000, "Qwen/Qwen3-32B"), cache="judge.db"))
        verdict = await judge.compare([conversation_1, conversation_2, conversation_3, conversation_4])
    """

    def __init__(self, client: LLMClient, rules: str = DEFAULT_RULES, *, attempts: int = 2) -> None:
        self._client = client
        self._rules = rules
        self._attempts = attempts

    async def compare(self, rollouts: Sequence[Sequence[Message]]) -> GroupVerdict:
        """Score the rollouts of one task.

        Args:
            rollouts: The conversation of each, of messages with ``role`` and ``content``; at most `MOST_COMPARED`.

        Raises:
            ValueError: There are more rollouts.
            VerdictError: The verdict can't be read.
        """
        if len(rollouts) > MOST_COMPARED:
            raise ValueError(
                f"Expected a group of 4 to {MOST_COMPARED} rollouts, got {len(rollouts)}: the scores of more in one "
                "comparison are unreliable, and those of several comparisons say nothing of each other."
            )
        written = [[_message(message) for message in rollout] for rollout in rollouts]
        shared = len(list(takewhile(lambda column: len(set(column)) == 1, zip(*written, strict=False))))
        own = ["\n".join(messages[shared:]) for messages in written]
        distinct = sorted(set(own))
        if len(distinct) < 2:
            return GroupVerdict([None] * len(own), [""] * len(own), [])
        numbers = {text: str(number) for number, text in enumerate(distinct, 1)}
        prompt = self._prompt(written[0][:shared], numbers)
        exchange = await request_verdict(
            self._client.respond, prompt, lambda answer: _read(answer, list(numbers.values())), self._attempts
        )
        verdicts = [exchange.verdict[numbers[text]] for text in own]
        return GroupVerdict([score for score, _ in verdicts], [reason for _, reason in verdicts], exchange.attempts)

    def _prompt(self, context: Sequence[str], numbers: Mapping[str, str]) -> str:
        begun = "\n".join(context)
        shown = f"\n<all_begin_with>\n{begun}\n</all_begin_with>\n" if begun else ""
        rollouts = "\n\n".join(
            f'<attempt number="{number}">\n{text or "(nothing more)"}\n</attempt>' for text, number in numbers.items()
        )
        form = json.dumps({number: {"reason": "...", "score": 0.0} for number in numbers.values()})
        return _PROMPT.format(rules=self._rules, context=shown, rollouts=rollouts, form=form)


def _message(message: Message) -> str:
    """Write a message as text, calls of tools included."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    calls = [
        f"calls {function.get('name')}({_arguments(function.get('arguments'))})"
        for call in message.get("tool_calls") or ()
        if isinstance(function := call.get("function", call), Mapping)
    ]
    return f"{message.get('role', 'user')}: {' '.join([text, *calls]).strip()}"


def _arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)


def _read(answer: str, numbers: list[str]) -> dict[str, tuple[float, str]]:
    verdict = json_verdict(answer)
    check_names(verdict, numbers, answer)
    return {number: _score(number, verdict[number], answer) for number in numbers}


def _score(number: str, verdict: Any, answer: str) -> tuple[float, str]:
    score = verdict.get("score") if isinstance(verdict, Mapping) else None
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise VerdictError(f"Expected a score from 0 to 1 for attempt {number}, got {score!r:.100}.", answer)
    return float(score), str(verdict.get("reason", ""))
