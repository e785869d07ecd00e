"""Episodes of a file of traces, their entries, further knowledge of them, and filters for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from openenv.core.schema.generator import faults_text
from openenv.core.wire.results import component_scores, component_totals

RESET, STEP = "reset", "step"
"""Kinds of entries."""

RUNNING, INTERRUPTED = "running", "interrupted"
"""Endings of an episode that has not ended, and of an episode whose server died."""

UNREADABLE = "unreadable"
"""Ending of an episode that has an impossible value on record; its error is the name of the value."""

EVALUATION_ID = "evaluation-"
"""Beginning of the ``episode_id`` of each episode in which a training evaluates its model, or a player beside it."""

GOOD, BAD = "good", "bad"
"""Labels of episodes by which pairs of episodes are made, of which one is preferred."""

MAX_LABEL, MAX_NOTE = 60, 10_000
"""Maximum number of characters of a label and of a note."""
SCRIPTED_PLAYER = "scripted player"
"""Model of the conversations of an environment's scripted player."""

Order = Literal["newest", "oldest", "best", "worst", "longest", "shortest"]
"""Order of a list of episodes: by their beginning, by their reward, where those without one come last, or by steps."""

Flag = Literal["cut_off", "length_limit", "no_reward", "no_variance", "above_scripted", "error"]
"""Flag of an episode that stands out: it was cut off, by the environment or by a limit of the model's side; it has no
reward; the rewards of its group in a training are the same; its reward is above the mean of the scripted player's in
its environment; the environment failed."""

Seconds = Annotated[float, Field(ge=0, lt=253_370_764_800, allow_inf_nan=False)]
"""Seconds since 1970, before the year 9999, as calendars can show them."""

Count = Annotated[int, Field(ge=0, lt=2**63)]
"""Number that a column of a table can hold."""

# The end of ``Seconds`` in microseconds.
_END_OF_TIME_US = 253_370_764_800_000_000
# Of everything that is read from other programs: a field that there is not is no field of a later version.
_CHECKED = ConfigDict(extra="forbid", revalidate_instances="always")


class _Function(BaseModel):
    """Function of a tool call in OpenAI's form, as far as it is read."""

    name: str
    arguments: Any


class _ToolCall(BaseModel):
    """Tool call in OpenAI's form, as far as it is read."""

    function: _Function


class _Message(BaseModel):
    """Message in OpenAI's form, as far as it is read."""

    role: str
    tool_calls: list[_ToolCall] | None = None


def _check_message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    _Message.model_validate(message)
    return message


@dataclass(frozen=True, slots=True)
class Episode:
    """Episode on record, without its entries; ``TraceFile.entries`` reads those.

    Attributes:
        id: Id of the episode in its file, such as ``2-17``.
        environment: Name of the environment.
        version: Version of the environment.
        session: Public name of the session.
        transport: Transport of the client: ``v1``, ``legacy``, ``http``, ``mcp`` or ``ors``.
        started_at: When the episode began, in seconds since 1970.
        ended_at: When it ended; ``None`` if it has not, or its server died.
        episode_id: The id that its reset named.
        seed: The seed that its reset named, as text.
        split: Split of its task.
        index: Index of its task, as text.
        steps: Number of steps.
        reward: Sum of the rewards; ``None`` without any.
        ending: ``done`` or ``truncated``; ``reset`` before it was done; why its session ended before; ``running`` or
            ``interrupted``; or ``unreadable`` where a value on record is impossible, which is then a zero, an empty
            text or ``None``.
        error: Code of the last error of the environment, or name of the impossible value; ``None`` without any.
        parent: Id of the episode that this one continues, as a fork.
        token_name: Name of the token that its client showed, of those in the server's ``--tokens``; ``None`` for a
            client without a named token.
        label: A person's label: ``good``, ``bad`` or another word; ``None`` without a label.
        note: A person's text on it; ``None`` without a note.
        component: Total of the component that the filter names; ``None`` without such a filter.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CHECKED

    id: str
    environment: str
    version: str | None
    session: str
    transport: str
    started_at: Seconds
    ended_at: Seconds | None
    episode_id: str | None
    seed: str | None
    split: str | None
    index: str | None
    steps: Count
    reward: float | None
    ending: str
    error: str | None
    parent: str | None
    token_name: str | None = None
    label: Annotated[str, Field(min_length=1, max_length=MAX_LABEL)] | None = None
    note: Annotated[str, Field(min_length=1, max_length=MAX_NOTE)] | None = None
    component: float | None = None

    @property
    def is_evaluation(self) -> bool:
        """True if a training played it to evaluate its model, or a player beside it."""
        return self.episode_id is not None and self.episode_id.startswith(EVALUATION_ID)

    @property
    def counted_reward(self) -> float | None:
        """The reward as means count it: ``None`` where the environment failed, whatever was reached before."""
        return self.reward if self.error is None else None


@dataclass(frozen=True, slots=True)
class Entry:
    """Request of an episode and its answer.

    Attributes:
        kind: ``reset`` or ``step``.
        at: When the answer was ready, in seconds since 1970.
        took_s: Seconds from the request's turn to its answer.
        request: Arguments of the reset, or the action; ``None`` where they could not be recorded.
        answer: ``{"observation", "reward", "done"}``, with ``"metadata"`` if there was any; of an error, its
            ``message`` and ``code``.
        failed: Whether the answer is an error.
        left_out: Paths of the fields that were left out of the record, such as ``observation.screenshot``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CHECKED

    kind: str
    at: Seconds
    took_s: Annotated[float, Field(allow_inf_nan=False)]
    request: Any
    answer: Mapping[str, Any]
    failed: bool
    left_out: Sequence[str] = ()

    @classmethod
    def of_line(cls, line: bytes) -> "Entry":
        """Read an entry from its line in the file.

        Raises:
            ValueError: It is none.
        """
        kind, at, took, failed, request, answer, *left_out = from_json(line)
        if type(at) is type(took) is int and isinstance(answer, dict) and 0 <= at < _END_OF_TIME_US:
            return cls(kind, at / 1e6, took / 1e6, request, answer, bool(failed), *left_out)
        raise ValueError(f"Expected an entry of an episode, got {line[:100]!r}.")

    def line(self) -> str:
        """Return the entry as its line in the file, without what is no JSON."""
        times = (round(self.at * 1e6), round(self.took_s * 1e6))
        left_out = (self.left_out,) if self.left_out else ()
        fields = (self.kind, *times, int(self.failed), self.request, self.answer, *left_out)
        return to_json(fields, inf_nan_mode="constants").decode() + "\n"

    @property
    def observation(self) -> Any:
        """The observation; ``None`` for an error."""
        return self.answer.get("observation")

    @property
    def reward(self) -> float | None:
        """The reward; ``None`` without one."""
        reward = self.answer.get("reward")
        return reward if isinstance(reward, int | float) else None

    @property
    def done(self) -> bool:
        """True if the episode has ended."""
        return bool(self.answer.get("done"))

    @property
    def components(self) -> Mapping[str, float]:
        """The named parts of the reward; empty without any."""
        return component_scores(self.answer.get("metadata"))


@dataclass(frozen=True, slots=True)
class Score:
    """Score that another rubric gave a stored episode, beside the rewards that the environment gave.

    Attributes:
        name: Name of the rubric.
        at: When it was given, in seconds since 1970.
        reward: Sum of the rewards of the steps.
        rewards: Reward of each step.
        components: Sum of the scores of each named part of the rubric, as `EpisodeRecord.components` has them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CHECKED

    name: str
    at: Seconds
    reward: float
    rewards: Sequence[float] = ()
    components: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The reward with its components, as in ``+1.250 right=1 short=0.5``."""
        return f"{self.reward:+.3f}{''.join(f' {name}={value:g}' for name, value in self.components.items())}"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Knowledge of the model's side of an episode: the model's input and output, and their cost.

    Attributes:
        episode_id: The id that the episode's reset named.
        messages: The conversation in OpenAI's form; a tool call's arguments may be a mapping.
        tools: The tools that were offered, in OpenAI's form.
        model: Name of the model, or of the player.
        model_version: Version of its weights, such as the training step.
        sampling: Settings of sampling, such as ``temperature``.
        prompt_ids: Tokens up to the first action.
        completion_ids: Tokens after these: written, and fed between.
        logprobs: Log-probability of each token of ``completion_ids`` when it was sampled; 0 if it was fed.
        env_mask: For each token of ``completion_ids`` 1 if the model wrote it, 0 if it was fed.
        token_texts: The text of each token by its id, as decimal digits; empty where they were not recorded.
        input_tokens: Tokens that were read, as the model's server counts them.
        output_tokens: Tokens that were written.
        cost_usd: Their cost.
        took_s: Seconds from the reset to the end.
        extra: Further knowledge.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CHECKED

    episode_id: str
    messages: Sequence[Annotated[Mapping[str, Any], AfterValidator(_check_message)]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    model: str | None = None
    model_version: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    prompt_ids: Sequence[int] = ()
    completion_ids: Sequence[int] = ()
    logprobs: Sequence[float] = ()
    env_mask: Sequence[int] = ()
    token_texts: Mapping[str, str] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    took_s: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """Episode with all that is on record of it.

    Attributes:
        episode: The episode.
        entries: Its entries.
        conversations: Conversations that the model's side added.
        scores: The scores of other rubrics.
    """

    episode: Episode
    entries: Sequence[Entry]
    conversations: Sequence[Conversation] = ()
    scores: Sequence[Score] = ()

    __pydantic_config__: ClassVar[ConfigDict] = _CHECKED

    @classmethod
    def of_fields(cls, fields: "Mapping[str, Any] | EpisodeRecord") -> "EpisodeRecord":
        """Return a record that can be stored and shown.

        Args:
            fields: Fields of a record, as ``dataclasses.asdict`` returns them, or a record, of any origin.

        Raises:
            ValueError: A part is missing, has a field that there is not, or a value that can't be, such as a time after
                the year 9999; the message names them.
        """
        try:
            return _RECORD.validate_python(fields)
        except ValidationError as error:
            raise ValueError(faults_text(error.errors(include_url=False, include_context=False))) from error

    @property
    def conversation(self) -> Conversation | None:
        """The latest conversation; ``None`` without any."""
        return self.conversations[-1] if self.conversations else None

    @property
    def steps(self) -> list[Entry]:
        """The steps that the environment answered, without errors."""
        return [entry for entry in self.entries if entry.kind == STEP and not entry.failed]

    @property
    def components(self) -> Mapping[str, float]:
        """The sum over the steps of each named part of the reward; empty without any."""
        return component_totals(entry.components for entry in self.steps)


EPISODE = TypeAdapter(Episode)
"""Check of an episode's values."""

CONVERSATION = TypeAdapter(Conversation)
"""Check of a conversation's values."""

SCORE = TypeAdapter(Score)
"""Check of a score's values."""

_RECORD = TypeAdapter(EpisodeRecord)


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes with the same values, counted.

    Attributes:
        key: The values by the names of the fields, such as ``{"environment": "catch"}``.
        episodes: Number of episodes.
        failed: Number of those in which the environment failed, whose rewards count for nothing.
        rewarded: Number of the others that have a reward.
        steps: Number of the steps of all.
        mean_reward: Mean of these rewards; ``None`` without any, as for the next two.
        min_reward: Lowest reward.
        max_reward: Highest reward.
        last_started_at: When the newest began, in seconds since 1970.
    """

    key: Mapping[str, Any]
    episodes: int
    failed: int
    rewarded: int
    steps: int
    mean_reward: float | None
    min_reward: float | None
    max_reward: float | None
    last_started_at: float


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter for episodes: all its conditions hold.

    Attributes:
        environment: Name of the environment.
        split: Split of the task.
        index: Index of the task.
        seed: Seed of the reset.
        episode_id: Id that the reset named.
        session: Beginning of the session's public name.
        transport: Transport of the client.
        version: Version of the environment.
        run: Number of the run that recorded it, as in ``TraceFile.groups``.
        model: Name of the model or player in the episode's conversation.
        token_name: Name of the token that its client showed.
        label: Label, as in `Episode.label`.
        component: Name of a component of the rewards: only episodes that have it, and its total is then what the next
            two, the orders ``best`` and ``worst``, and the rewards of groups are about, instead of the rewards' sum.
        min_reward: Lowest sum of rewards.
        max_reward: Highest sum of rewards.
        since: Earliest beginning, in seconds since 1970.
        until: Latest beginning, in seconds since 1970.
        ending: Ending, as in ``Episode.ending``.
        flag: Flag, as in ``TraceFile.flags``.
        text: Text within a request, an answer, or what the model's side added.
        evaluation: Whether a training played it to evaluate its model; see `Episode.is_evaluation`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CHECKED

    environment: str | None = None
    split: str | None = None
    index: str | None = None
    seed: str | None = None
    episode_id: str | None = None
    session: str | None = None
    transport: str | None = None
    version: str | None = None
    run: Count | None = None
    model: str | None = None
    token_name: str | None = None
    label: str | None = None
    component: str | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    since: float | None = None
    until: float | None = None
    ending: str | None = None
    flag: Flag | None = None
    text: str | None = None
    evaluation: bool | None = None

    def for_training(self) -> "Filter":
        """Return the filter without evaluations, unless it has a condition on them: no training uses what is tested."""
        return replace(self, evaluation=False) if self.evaluation is None else self


FILTER = TypeAdapter(Filter)
"""Check of a filter's values, such as those of an address, which are all text."""
