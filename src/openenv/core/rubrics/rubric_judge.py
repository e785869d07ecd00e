"""``RubricJudge``: a language model chooses among ordered choices for each of some criteria."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from openenv.core.documents import read_json, read_toml, read_yaml
from openenv.core.exceptions import ConfigurationError
from openenv.core.llm_client import LLMClient
from openenv.core.rubrics.base import Rubric
from openenv.core.rubrics.judge import Judge
from openenv.core.rubrics.verdicts import VerdictError, check_names, json_verdict, request_verdict

__all__ = ["Criterion", "CriterionScore", "RubricJudge"]

_PROMPT = """You grade what an agent did in one step.

<action>
{action}
</action>

<observation>
{observation}
</observation>

"""
_TASK = """For each criterion, give your reason first, then exactly one of its choices, which stand from worst to best.

{criteria}

Answer with one object of JSON and nothing else, of this form:
{form}"""

_READERS: Mapping[str, Callable[[Path], Any]] = {".json": read_json, ".toml": read_toml}


class Criterion(BaseModel):
    """Something that a judge decides on.

    Attributes:
        name: Name of the reward's component.
        question: What the judge decides, in words.
        choices: The possible verdicts, from worst (score 0) to best (score 1).
        weight: Weight of the score in the reward. The weights of all criteria sum up to 1; without any they are equal.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[^\W\d]\w*$")
    question: str = Field(min_length=1)
    choices: tuple[str, ...] = Field(default=("no", "partly", "yes"), min_length=2)
    weight: float | None = None


@dataclass(frozen=True)
class _Verdict:
    """Verdict on one criterion."""

    score: float
    choice: str
    reason: str


class CriterionScore(Rubric):
    """Score of one criterion, as the judge has decided; a component of a ``RubricJudge``.

    Args:
        criterion: The criterion.
    """

    def __init__(self, criterion: Criterion) -> None:
        super().__init__()
        self.criterion = criterion
        self.decided = 0.0

    def forward(self, action: Any, observation: Any) -> float:
        """Return the score of the last verdict."""
        return self.decided


class RubricJudge(Judge):
    """Weighted sum of what a language model decides on criteria. Calls are ``async``; each criterion is a component.

    Args:
        criteria: The criteria, or a file of them: YAML, JSON or TOML with a list ``criteria`` of what `Criterion` has.
        client: Client of the model, such as a ``LimitedClient``.
        prompt_template: What comes before the criteria, with ``{action}`` and ``{observation}`` where these go.
        max_criteria: Criteria in one prompt; more are decided in several.
        attempts: Answers after which a verdict that can't be read is an error.

    Raises:
        ConfigurationError: The criteria are not of this form, have equal names or choices, or weights that do not sum
            up to 1.

    Example::

        judge = RubricJudge("criteria.yaml", OpenAIClient("http://localhost", 8000, "Qwen/Qwen3-32B"))
        super().__init__(rubric=judge)
    """

    def __init__(
        self,
        criteria: str | Path | Sequence[Criterion | Mapping[str, Any]],
        client: LLMClient,
        *,
        prompt_template: str = _PROMPT,
        max_criteria: int = 10,
        attempts: int = 2,
    ) -> None:
        super().__init__(client)
        if max_criteria < 1 or attempts < 1:
            raise ConfigurationError(f"Expected max_criteria and attempts from 1, got {max_criteria} and {attempts}.")
        self.criteria = read_criteria(criteria)
        self.prompt_template = prompt_template
        self._max_criteria = max_criteria
        self._attempts = attempts
        self._weights = _weights(self.criteria)
        self._scores = [CriterionScore(criterion) for criterion in self.criteria]
        for score in self._scores:
            self._add_child(score.criterion.name, score)
        self._exchanges: list[dict[str, Any]] = []

    async def forward(self, action: Any, observation: Any) -> float:
        """Have the model decide, and add up the weighted scores.

        Raises:
            VerdictError: A verdict can't be read.
        """
        opening = self._opening(action, observation)
        self._exchanges = []
        verdicts: dict[str, _Verdict] = {}
        for start in range(0, len(self.criteria), self._max_criteria):
            verdicts |= await self._decided(opening, self.criteria[start : start + self._max_criteria])
        for score in self._scores:
            score.decided = verdicts[score.criterion.name].score
            score(action, observation)
        return math.fsum(
            weight * verdicts[criterion.name].score
            for criterion, weight in zip(self.criteria, self._weights, strict=True)
        )

    def component_weights(self) -> Mapping[str, float]:
        """Return the weights of the criteria."""
        return {criterion.name: weight for criterion, weight in zip(self.criteria, self._weights, strict=True)}

    def evidence(self) -> Any:
        """Return each prompt and answer of the last call, with the verdicts."""
        return self._exchanges

    def _opening(self, action: Any, observation: Any) -> str:
        """Return what comes before the criteria; may be overridden."""
        return self.prompt_template.format(action=_text(action), observation=_text(observation))

    async def _decided(self, opening: str, criteria: Sequence[Criterion]) -> dict[str, _Verdict]:
        prompt = opening + _TASK.format(criteria=_described(criteria), form=_form(criteria))
        exchange = await request_verdict(self.respond, prompt, lambda answer: _read(answer, criteria), self._attempts)
        self._exchanges += exchange.attempts
        self._exchanges[-1]["verdicts"] = {
            name: {"choice": verdict.choice, "reason": verdict.reason} for name, verdict in exchange.verdict.items()
        }
        return exchange.verdict


def read_criteria(criteria: str | Path | Sequence[Criterion | Mapping[str, Any]]) -> list[Criterion]:
    """Return criteria, or those of a file.

    Args:
        criteria: As for `RubricJudge`.

    Raises:
        ConfigurationError: They are not of the form.
    """
    where = "criteria"
    given: Any = criteria
    if isinstance(criteria, str | Path):
        where = str(criteria)
        document = _READERS.get(Path(criteria).suffix, read_yaml)(Path(criteria))
        given = document.get("criteria") if isinstance(document, dict) else None
        if not isinstance(given, list):
            raise ConfigurationError(f"{where}: expected a list named criteria, got {given!r:.100}.")
    try:
        read = TypeAdapter(list[Criterion]).validate_python(given)
    except ValidationError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    names = [criterion.name for criterion in read]
    if not names:
        raise ConfigurationError(f"{where}: expected at least one criterion, got none.")
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{where}: expected another name for each criterion, got {name!r} twice.")
    for criterion in read:
        if len(set(criterion.choices)) < len(criterion.choices):
            raise ConfigurationError(f"{where}: the choices of {criterion.name!r} have to differ: {criterion.choices}.")
    return read


def _weights(criteria: Sequence[Criterion]) -> list[float]:
    given = [criterion.weight for criterion in criteria if criterion.weight is not None]
    if not given:
        return [1 / len(criteria)] * len(criteria)
    if len(given) < len(criteria):
        raise ConfigurationError("Expected a weight for each criterion, or for none.")
    total = math.fsum(given)
    if not abs(total - 1) < 1e-6:  # also true of NaN
        raise ConfigurationError(f"The weights of the criteria must sum to 1.0, got {total}.")
    return given


def _described(criteria: Sequence[Criterion]) -> str:
    return "\n".join(f"- {each.name}: {each.question} Choices: {json.dumps(each.choices)}" for each in criteria)


def _form(criteria: Sequence[Criterion]) -> str:
    example = {"reason": "...", "choice": "..."}
    return json.dumps({criterion.name: example for criterion in criteria})


def _read(answer: str, criteria: Sequence[Criterion]) -> dict[str, _Verdict]:
    verdict = json_verdict(answer)
    check_names(verdict, [criterion.name for criterion in criteria], answer)
    return {criterion.name: _read_one(verdict[criterion.name], criterion, answer) for criterion in criteria}


def _read_one(verdict: Any, criterion: Criterion, answer: str) -> _Verdict:
    choice = verdict.get("choice") if isinstance(verdict, dict) else None
    if choice not in criterion.choices:
        choices = ", ".join(criterion.choices)
        raise VerdictError(
            f"Expected the choice of {criterion.name} to be one of {choices}; got {choice!r:.100}.", answer
        )
    score = criterion.choices.index(choice) / (len(criterion.choices) - 1)
    return _Verdict(score, choice, str(verdict.get("reason", "")))


def _text(value: Any) -> str:
    if isinstance(value, BaseModel):
        # The metadata may hold what is no judge's business, and the reward is not known yet.
        return value.model_dump_json(exclude={"metadata", "reward"})
    return str(value)
