"""An environment of verifiers as an environment: a row of its dataset is a task, its rubric gives the reward."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from openenv.adapters.task_list import TaskListEnvironment
from openenv.adapters.verifiers.loading import VerifiersTasks
from openenv.core.documents import parse_json
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, Tool, ToolError, ToolErrorType
from openenv.core.env_server.types import State
from openenv.core.exceptions import ConfigurationError, InvalidRequestError
from openenv.core.rewards.verifiers_rubrics import VerifiersReward
from openenv.core.tasks import TaskListing

__all__ = ["VerifiersEnvironment", "VerifiersObservation"]

_SUBMIT = "submit"


class VerifiersObservation(CallToolObservation):
    """Observation of an environment of verifiers: the prompt after a reset, and that an answer was scored.

    Attributes:
        tool_name: The tool; empty after a reset.
        result: Text of the tool; ``None`` after a reset.
        prompt: The texts of the prompt's messages, as one; empty after a call.
        messages: The prompt's messages.
    """

    tool_name: str = ""
    prompt: str = ""
    messages: list[dict[str, Any]] = Field(default_factory=list)


class _Submission(BaseModel):
    """Arguments of the tool."""

    model_config = ConfigDict(extra="forbid")

    completion: str | None = Field(default=None, description="The answer as a text.")
    messages: list[dict[str, Any]] | None = Field(
        default=None, description="The answer as messages, each with role and content, where it is more than a text."
    )

    @model_validator(mode="after")
    def _is_one(self) -> "_Submission":
        if (self.completion is None) == (not self.messages):
            raise ValueError("expected a completion or messages")
        return self

    def as_messages(self) -> list[dict[str, Any]]:
        """Return the answer as messages."""
        return self.messages or [{"role": "assistant", "content": self.completion}]


class _RolloutReward(VerifiersReward):
    """Score of the rubric for the messages of an answer to a row of the dataset."""

    async def forward(self, action: Any, observation: Any) -> Any:
        return await self.score({**observation, "completion": action}, action, observation)


class VerifiersEnvironment(TaskListing, TaskListEnvironment[VerifiersObservation, dict[str, Any]]):
    """Environment that plays the ``tasks`` of an environment of verifiers, which a subclass has.

    A reset returns the prompt of a row. The only tool, ``submit``, takes the answer, has the rubric score it, and ends
    the episode: what verifiers plays in several turns is submitted as all of its messages.

    Attributes:
        tasks: The environment's datasets and rubric.

    Example::

        class SumsEnvironment(VerifiersEnvironment):
            SUPPORTS_CONCURRENT_SESSIONS = True
            tasks = load_verifiers(load_environment, {"num_examples": 100})
    """

    tasks: ClassVar[VerifiersTasks]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check that there are tasks.

        Raises:
            ConfigurationError: There are none.
        """
        super().__init_subclass__(**kwargs)
        if not isinstance(getattr(cls, "tasks", None), VerifiersTasks):
            raise ConfigurationError(f"{cls.__name__}.tasks: expected what load_verifiers returns.")

    def __init__(self) -> None:
        super().__init__(rubric=_RolloutReward(self.tasks.rubric))

    @property
    def task_counts(self) -> Mapping[str, int]:
        """Number of rows of each split."""
        return self.tasks.task_counts

    async def _begin(
        self, seed: int | None, split: str | None, index: int | None, task_spec: dict[str, Any] | None
    ) -> tuple[VerifiersObservation, State]:
        """Begin an episode with a row of the dataset.

        Raises:
            TaskNotFoundError: There is no such row.
            InvalidRequestError: The row has neither a prompt nor a question.
        """
        await self._reset_rubric_async()
        state = State(source_type="verifiers")
        if task_spec is None:
            chosen = self.choose_task(split, index, seed)
            task_spec = self.tasks.row(chosen)
            state = State(source_type="verifiers", split=chosen.split, index=chosen.index)
        self._episode = _rollout(task_spec)
        messages = self._episode["prompt"]
        return VerifiersObservation(prompt=_text_of(messages), messages=messages), state

    async def _tools(self) -> list[Tool]:
        return [_tool()]

    async def _call(self, episode: dict[str, Any], action: CallToolAction) -> VerifiersObservation:
        if action.tool_name != _SUBMIT:
            return _refused(action, ToolErrorType.TOOL_NOT_FOUND, f"There is one tool, {_SUBMIT}.")
        try:
            submission = _Submission.model_validate(action.arguments)
        except ValidationError as error:
            return _refused(action, ToolErrorType.INVALID_ARGS, str(error))
        reward = await self._apply_rubric_async(submission.as_messages(), episode)
        self._episode = None  # not before: where the rubric fails, the answer may be submitted once more
        return VerifiersObservation(tool_name=_SUBMIT, result="The answer was scored.", reward=reward, done=True)


def _rollout(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a rubric reads of a row of the dataset.

    Raises:
        InvalidRequestError: The row has no prompt.
    """
    prompt = row.get("prompt") or row.get("question")
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    if not isinstance(prompt, list) or not all(isinstance(message, Mapping) for message in prompt):
        raise InvalidRequestError(f"Expected a row with a prompt or a question, got one with {', '.join(row)}.")
    info = row.get("info") or {}
    rollout = {
        "answer": "",
        "task": "default",
        **row,
        "prompt": [{name: value for name, value in message.items() if value is not None} for message in prompt],
        "info": parse_json(info) if isinstance(info, str) else info,
    }
    return {**rollout, "input": dict(rollout)}


def _text_of(messages: list[dict[str, Any]]) -> str:
    return "\n\n".join(text for message in messages if (text := _content(message.get("content"))))


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part)


def _tool() -> Tool:
    return Tool(
        name=_SUBMIT,
        description="Submit the answer, which is scored and ends the episode.",
        input_schema=_Submission.model_json_schema(),
    )


def _refused(action: CallToolAction, kind: ToolErrorType, message: str) -> VerifiersObservation:
    return VerifiersObservation(tool_name=action.tool_name, error=ToolError(error_type=kind, message=message))
