"""``LLMJudge``: a score that a language model writes."""

import re
from collections.abc import Mapping
from typing import Any

from openenv.core.llm_client import LLMClient
from openenv.core.rubrics.judge import Judge
from openenv.core.rubrics.verdicts import VerdictError, number_verdict

__all__ = ["LLMJudge", "VerdictError"]


class LLMJudge(Judge):
    """Score of a language model, read from its answer to a prompt. Calls are ``async``.

    Args:
        prompt_template: The prompt, with ``{action}`` and ``{observation}`` where these go.
        client: Client of the model.
        score_pattern: Regular expression of the score in the answer, its first group if it has groups. By default the
            score is the only number of the answer, but for the end of the scale in ``0.75 out of 1`` and ``0.75/1``,
            and the answer ends with it, alone or as in ``Score: 0.75``.
        default_score: Score of an answer without a readable verdict. By default such an answer is an error: a judge
            that is broken must not look like an agent that is bad.
        normalize: Whether scores below 0 become 0 and those above 1 become 1.

    Raises:
        re.error: ``score_pattern`` is no regular expression.

    Example:
        >>> from openenv.core.llm_client import LLMClient
        >>> from openenv.core.rubrics import LLMJudge
        >>> class Stub(LLMClient):
        ...     async def complete(self, prompt, **kwargs):
        ...         return "Score: 0.8"
        >>> judge = LLMJudge("Is {action} polite? Answer with a score from 0 to 1.", Stub("http://localhost", 8000))
        >>> import asyncio
        >>> asyncio.run(judge("please", None))
        0.8
    """

    def __init__(
        self,
        prompt_template: str,
        client: LLMClient,
        *,
        score_pattern: str | None = None,
        default_score: float | None = None,
        normalize: bool = True,
    ) -> None:
        super().__init__(client)
        self.prompt_template = prompt_template
        self.default_score = default_score
        self.normalize = normalize
        self._score_pattern = _compiled(score_pattern)

    async def forward(self, action: Any, observation: Any) -> float:
        """Put the prompt to the model and read the score from its answer.

        Raises:
            VerdictError: The answer has no clear score, or several different ones, and there is no ``default_score``.
        """
        answer = await self.respond(self._render_prompt(action, observation))
        return self._parse_score(answer.content)

    def _render_prompt(self, action: Any, observation: Any) -> str:
        """Return the prompt; may be overridden."""
        return self.prompt_template.format(action=action, observation=observation)

    def _parse_score(self, answer: str) -> float:
        """Return the score in an answer; may be overridden."""
        try:
            score = number_verdict(answer) if self._score_pattern is None else _matched(self._score_pattern, answer)
        except VerdictError:
            if self.default_score is None:
                raise
            return self.default_score
        return min(max(score, 0.0), 1.0) if self.normalize else score

    def state_dict(self) -> dict[str, Any]:
        """Return the settings."""
        return {
            "prompt_template": self.prompt_template,
            "score_pattern": None if self._score_pattern is None else self._score_pattern.pattern,
            "default_score": self.default_score,
            "normalize": self.normalize,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the settings."""
        self.prompt_template = state.get("prompt_template", self.prompt_template)
        if "score_pattern" in state:
            self._score_pattern = _compiled(state["score_pattern"])
        self.default_score = state.get("default_score", self.default_score)
        self.normalize = state.get("normalize", self.normalize)


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    return None if pattern is None else re.compile(pattern)


def _matched(pattern: re.Pattern[str], answer: str) -> float:
    found = [_first_group(match) for match in pattern.finditer(answer)]
    try:
        scores = {float(text) for text in found}
    except ValueError:
        scores = set()
    if len(scores) != 1:
        raise VerdictError(f"Expected one match of {pattern.pattern!r}, got {', '.join(found) or 'none'}.", answer)
    return scores.pop()


def _first_group(match: re.Match[str]) -> str:
    text = match.group(1) if match.re.groups else match.group()
    return text or ""
