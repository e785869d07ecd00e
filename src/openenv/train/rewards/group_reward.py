"""A comparison of the rollouts of a group, as a reward function of TRL."""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from openenv.core.background_loop import background_loop
from openenv.core.exceptions import ConfigurationError, FailureKind
from openenv.core.rubrics.group_judge import GroupJudge, GroupVerdict
from openenv.train.forms.tool_form import call_text
from openenv.train.rollout.tool_episode import EpisodeStep, ToolEpisode
from openenv.train.tasks.order import prompt_groups

__all__ = ["GroupReward"]

logger = logging.getLogger(__name__)

Message = Mapping[str, Any]


class GroupReward:
    """Gives each episode the score that a judge gives it among the episodes of its group.

    Episodes of a group have the same prompt and stand together, as in TRL; let ``num_generations`` be from 4 to 8. The
    groups of a batch are judged at the same time. The environment's own reward does not count, and its mean is logged
    as ``episode/independent_reward``; to count it too, put its function beside this one.

    Args:
        judge: Compares the rollouts.
        on_error: What becomes of a group whose judge fails, or gives a verdict that can't be read: ``raise`` ends the
            training; with ``skip`` its episodes have no reward, which is logged.
        record: File to which what the judge was sent and answered is appended, a line of JSON for each group.

    Attributes:
        __name__: What TRL calls it in its metrics.

    Raises:
        ConfigurationError: ``on_error`` is something else.

    Example::

        judge = GroupJudge(OpenAIClient("http://localhost", 8000, "Qwen/Qwen3-32B"))
        trainer = GRPOTrainer(..., environment_factory=spec.environment_factory, reward_funcs=[GroupReward(judge)])
    """

    def __init__(
        self, judge: GroupJudge, *, on_error: Literal["raise", "skip"] = "raise", record: str | Path | None = None
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise ConfigurationError(f"Expected 'raise' or 'skip' for on_error, got {on_error!r}.")
        self.__name__ = "group_reward"
        self._judge = judge
        self._skips = on_error == "skip"
        self._record = None if record is None else Path(record)

    def __call__(
        self,
        *,
        prompts: Sequence[Any],
        completions: Sequence[Any] = (),
        environments: Sequence[ToolEpisode] | None = None,
        trajectory: Sequence[Sequence[EpisodeStep]] | None = None,
        opening: Sequence[str] | None = None,
        environment_reward: Sequence[float | None] | None = None,
        failure: Sequence[str] | None = None,
        log_metric: Any = None,
        **_: Any,
    ) -> list[float | None]:
        """Score the episodes of a batch.

        Args:
            prompts: The prompt of each episode.
            completions: What the model wrote; compared where there is no environment.
            environments: The environments that the episodes were played in.
            trajectory: From a ``rollout_func``: the steps of each episode.
            opening: From there: the first observation of each.
            environment_reward: From there: the environment's rewards, ``None`` where it failed or gave none.
            failure: From there: the kind of each episode's failure, empty without one. Episodes without a reward are
                compared.
            log_metric: TRL's logger of scalars.
            **_: What TRL passes to every reward function.

        Returns:
            The scores, from 0 to 1; ``None`` where the environment failed, there was nothing to compare, or the judge
            failed and is skipped.

        Raises:
            VerdictError: A verdict can't be read.
        """
        if environments is not None:
            trajectory = [each.trajectory for each in environments]
            opening = [each.opening for each in environments]
            environment_reward = [each.reward for each in environments]
            failure = [each.failure or "" for each in environments]
        if trajectory is None:
            rollouts = [_completed(prompt, each) for prompt, each in zip(prompts, completions, strict=True)]
        else:
            first = opening or [""] * len(trajectory)
            rollouts = [
                [*_conversation(prompt), *_played(shown, steps)]
                for prompt, shown, steps in zip(prompts, first, trajectory, strict=True)
            ]
        rewards = [0.0] * len(prompts) if environment_reward is None else environment_reward
        kinds = failure or [FailureKind.OTHER if reward is None else "" for reward in rewards]
        groups = [[number for number in group if _is_compared(kinds[number])] for group in prompt_groups(prompts)]
        verdicts = background_loop().run(self._judged([[rollouts[number] for number in group] for group in groups]))
        scores: list[float | None] = [None] * len(prompts)
        for group, verdict in zip(groups, verdicts, strict=True):
            for number, score in zip(group, verdict.scores, strict=True):
                scores[number] = score
        if log_metric is not None:
            _log(log_metric, {"group_reward": scores, "independent_reward": environment_reward or ()})
        return scores

    async def _judged(self, groups: Sequence[Sequence[Sequence[Message]]]) -> list[GroupVerdict]:
        """Judge all groups at the same time; the first failure cancels the others, unless failures are skipped."""
        tasks = [asyncio.create_task(self._judged_one(rollouts)) for rollouts in groups]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _judged_one(self, rollouts: Sequence[Sequence[Message]]) -> GroupVerdict:
        try:
            verdict = await self._judge.compare(rollouts)
        except Exception as error:
            if not self._skips:
                raise
            logger.warning("A group of %d episodes has no reward: %s", len(rollouts), error)
            return GroupVerdict([None] * len(rollouts), [""] * len(rollouts), [])
        if self._record is not None:
            line = {"scores": verdict.scores, "reasons": verdict.reasons, "exchanges": verdict.exchanges}
            with self._record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        return verdict


def _log(log_metric: Any, measured: Mapping[str, Sequence[float | None]]) -> None:
    for name, values in measured.items():
        known = [value for value in values if value is not None]
        if known:
            log_metric(f"episode/{name}", fmean(known))


def _played(opening: str, steps: Sequence[EpisodeStep]) -> Iterator[Message]:
    """Write an episode as a conversation."""
    if opening:
        yield {"role": "environment", "content": opening}
    for step in steps:
        text = call_text(step.tool, dict(step.arguments)) if step.tool else str(step.arguments.get("text", ""))
        yield {"role": "agent", "content": text}
        yield {"role": "environment", "content": step.observation if step.problem is None else step.problem}


def _completed(prompt: Any, completion: Any) -> list[Message]:
    """Write what a model wrote as a conversation; it is one already where prompts are conversations."""
    written = [{"role": "agent", "content": completion}] if isinstance(completion, str) else list(completion)
    return [*_conversation(prompt), *written]


def _conversation(prompt: Any) -> list[Message]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


def _is_compared(failure: str) -> bool:
    """Return whether an episode is compared: also one to which the environment gave no reward."""
    return failure in ("", FailureKind.NO_REWARD)
