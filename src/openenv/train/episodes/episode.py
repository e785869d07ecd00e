"""Record of an episode that was played for training or evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from openenv.core.client_types import StepResult
from openenv.core.exceptions import FailureKind, OpenEnvError, ServerError
from openenv.core.wire.results import PARTICIPANTS, ParticipantUsage, component_totals, participants_of
from openenv.records.answers import answer_counts
from openenv.records.failures import failure_kind
from openenv.train.episodes.spending import FAILED_PARTICIPANT

__all__ = ["Episode", "Limit", "Turn"]

Limit = Literal[
    "max_turns", "max_context", "illegal_answers", "max_answers", "max_episode_tokens", "max_seconds", "max_price"
]
"""Cause of an episode's end that is not the environment's."""


@dataclass(frozen=True)
class Turn:
    """One action of an episode.

    Attributes:
        observation: The observation that the agent was shown, as text.
        action: The agent's answer, as text.
        reward: The reward for it: the environment's, less what an illegal answer costs where that is the rule.
        problem: The reason why the answer was no legal action; ``None`` if it was one.
        components: Scores of the reward's components by name; empty where the environment has no rubric.
    """

    observation: str
    action: str
    reward: float
    problem: str | None = None
    components: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the attributes by name; the components only where there are any."""
        fields = {name: getattr(self, name) for name in ("observation", "action", "reward", "problem")}
        return {**fields, "components": dict(self.components)} if self.components else fields


@dataclass
class Episode:
    """One episode, and its tokens if a language model played it.

    Attributes:
        seed: The seed of its reset; ``None`` where its task has none.
        prompt_ids: The tokens up to the first action.
        completion_ids: The tokens after these: actions, and those that were fed between them.
        logprobs: For each token of ``completion_ids`` its log-probability when it was sampled; 0 if it was fed.
        env_mask: For each token of ``completion_ids`` 1 if the model wrote it, 0 if it was fed.
        turns: The actions with their observations and rewards.
        done: Whether the environment ended the episode, rather than a limit.
        error: Why the environment failed, or the model's server; such an episode is no evidence about the player.
        in_reset: Whether it is its reset that failed.
        task: Parameters of its reset beside the seed.
        cut_by: The limit, or the rule for illegal answers, that cut the episode off, if the environment did not end it.
        cut_answers: Answers of a model that ended at ``max_action_tokens``, and not where the model ended them.
        answers_without_call: Answers in which no call of a tool could be read; the first ends the episode.
        step_rewards: The credit of each step, where the environment gave it at the episode's end.
        episode_id: The id that its reset named, by which its trace is found; no part of the task.
        took_s: Seconds from the reset's answer to the last step's.
        participants: What the environment's participants have used, such as a user, an opponent or a judge, by name.
        cpu_s: Seconds of CPU that the environment has used; ``None`` where its server measures none.
    """

    seed: int | None
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    env_mask: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    done: bool = False
    error: OpenEnvError | None = None
    in_reset: bool = False
    task: Mapping[str, Any] = field(default_factory=dict)
    cut_by: Limit | None = None
    cut_answers: int = 0
    answers_without_call: int = 0
    step_rewards: list[float] | None = None
    episode_id: str | None = field(default=None, compare=False)
    took_s: float = field(default=0.0, compare=False)
    participants: dict[str, ParticipantUsage] = field(default_factory=dict)
    cpu_s: float | None = field(default=None, compare=False)

    @classmethod
    def of_task(cls, parameters: Mapping[str, Any]) -> Self:
        """Begin the record of an episode.

        Args:
            parameters: Parameters of its reset, with the seed and the ``episode_id`` if there are any.
        """
        task = dict(parameters)
        return cls(task.pop("seed", None), episode_id=task.pop("episode_id", None), task=task)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of its reset, but for the id."""
        return dict(self.task) if self.seed is None else {**self.task, "seed": self.seed}

    @property
    def failure(self) -> FailureKind | None:
        """The kind of its failure; ``None`` where nothing failed."""
        return None if self.error is None else failure_kind(self.error, in_reset=self.in_reset)

    @property
    def reward(self) -> float:
        """The sum of the rewards of its turns; of an episode that failed, what was reached, which is no reward."""
        return sum(turn.reward for turn in self.turns)

    @property
    def reward_components(self) -> dict[str, float]:
        """The sum of each component's scores, as the reward is the sum of rewards; empty without a rubric."""
        return component_totals(turn.components for turn in self.turns)

    @property
    def illegal_actions(self) -> int:
        """Number of answers that were no legal action."""
        return sum(turn.problem is not None for turn in self.turns)

    @property
    def illegal_texts(self) -> list[str]:
        """Answers that were no legal action."""
        return [turn.action for turn in self.turns if turn.problem is not None]

    @property
    def length(self) -> int:
        """Number of tokens, of prompt and completion."""
        return len(self.prompt_ids) + len(self.completion_ids)

    @property
    def tokens_written(self) -> int:
        """Number of tokens that the model wrote."""
        return sum(self.env_mask)

    @property
    def tokens_read(self) -> int:
        """Number of tokens that the model was fed, each of which it has read once."""
        return self.length - self.tokens_written

    @property
    def spent(self) -> dict[str, Any]:
        """Seconds, CPU and use of participants, under the names of a `Collection`, and the participant that failed."""
        spent: dict[str, Any] = {"took_s": round(self.took_s, 3)}
        if self.cpu_s is not None:
            spent["cpu_s"] = self.cpu_s
        if self.participants:
            spent[PARTICIPANTS] = {name: asdict(used) for name, used in self.participants.items()}
        failed = _failed_participant(self.error)
        return spent if failed is None else {**spent, FAILED_PARTICIPANT: failed}

    @property
    def answer_counts(self) -> dict[str, Any]:
        """The numbers of its answers and the commonest illegal ones, under the names of a `Collection`."""
        return answer_counts(
            length=len(self.turns),
            illegal_actions=self.illegal_actions,
            illegal_texts=self.illegal_texts,
            cut_answers=self.cut_answers,
            answers_without_call=self.answers_without_call,
        )

    def add_written(self, token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Append tokens that the model wrote."""
        self.completion_ids += token_ids
        self.logprobs += logprobs
        self.env_mask += [1] * len(token_ids)

    def add_fed(self, token_ids: Sequence[int]) -> None:
        """Append tokens that the model was fed."""
        self.completion_ids += token_ids
        self.logprobs += [0.0] * len(token_ids)
        self.env_mask += [0] * len(token_ids)

    def fail(self, error: OpenEnvError, *, in_reset: bool = False) -> None:
        """End the episode with a failure, which is no reward of 0."""
        self.error, self.in_reset = error, in_reset
        if isinstance(error, ServerError):
            self.participants |= participants_of(error.details.get(PARTICIPANTS))

    def add_turn(
        self,
        observation: str,
        action: str,
        outcome: StepResult[Any] | OpenEnvError | None,
        problem: str | None = None,
        penalty: float = 0.0,
    ) -> None:
        """Append the turn of an action, or note the environment's failure.

        Args:
            observation: The observation that the agent was shown, as text.
            action: The agent's answer, as text.
            outcome: The environment's answer, or its failure; ``None`` if it was sent nothing, or refused.
            problem: The reason why the answer was no legal action, if it was none.
            penalty: What an illegal answer costs.
        """
        error = outcome.reward_error if isinstance(outcome, StepResult) else outcome
        if error is not None:
            self.fail(error)
            return
        reward = outcome.counted_reward if isinstance(outcome, StepResult) else 0.0
        if problem is not None:
            reward -= penalty
        if not isinstance(outcome, StepResult):
            self.turns.append(Turn(observation, action, reward, problem))
            self.done = False
            return
        self.turns.append(Turn(observation, action, reward, problem, outcome.reward_components))
        self.done = outcome.done
        self.step_rewards = outcome.step_rewards

    def is_over(self, max_turns: int) -> bool:
        """Return whether no further action is possible."""
        return self.done or self.error is not None or len(self.turns) >= max_turns


def _failed_participant(error: OpenEnvError | None) -> str | None:
    """Return the name of the user, the opponent or the judge that failed; ``None`` for another failure."""
    if error is None or failure_kind(error) not in (FailureKind.PARTICIPANT, FailureKind.JUDGE):
        return None
    details = error.details if isinstance(error, ServerError) else {}
    name = details.get("participant", details.get("component"))
    return None if name is None else str(name)
