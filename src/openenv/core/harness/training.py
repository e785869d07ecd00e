"""Turns of an agent with the tokens that its model's engine read and sampled, as a trainer reads them."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from openenv.core.harness.capture.validate import validate_training_turn
from openenv.core.harness.records import TraceEntry


class TrainingTurn(BaseModel):
    """One call of the model, which can be trained on.

    Attributes:
        node_id: Its id, unique in a trace.
        prompt_token_ids: Tokens that the engine read.
        completion_token_ids: Tokens that it sampled.
        per_token_logps: Log-probability of each sampled token.
        loss_mask: 1 for each token to be trained on, else 0, over prompt and completion.
        request: The request, in OpenAI's form.
        response: The answer, in OpenAI's form.
        metadata: Anything else that is known of the turn.

    Raises:
        ValueError: A value has another type, or the turn can't be trained on; the message begins with ``invalid
            training turn`` and has all faults, as ``[FATAL] code: detail``.

    Example:
        >>> tokens = {"prompt_token_ids": [1, 2], "completion_token_ids": [3], "per_token_logps": [-0.2]}
        >>> TrainingTurn(node_id="n0", loss_mask=[0, 0, 1], **tokens).completion_token_ids
        [3]
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    node_id: str = Field(min_length=1)
    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    per_token_logps: list[float]
    loss_mask: list[int]
    request: dict[str, Any] = Field(default_factory=dict)
    response: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        faults = validate_training_turn(
            self.prompt_token_ids, self.completion_token_ids, self.per_token_logps, self.loss_mask
        )
        if faults:
            raise ValueError(f"invalid training turn: {'; '.join(map(str, faults))}")
        return self


class TrainingTrace(BaseModel):
    """Turns of one rollout, in the order of time.

    Attributes:
        schema_version: Version of this form.
        turns: The turns.

    Raises:
        ValueError: A turn is invalid, or two have the same ``node_id``.

    Example:
        >>> TrainingTrace(turns=[]).to_trace_entries()
        []
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    schema_version: Literal[1] = 1
    turns: list[TrainingTurn]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({turn.node_id for turn in self.turns}) < len(self.turns):
            raise ValueError("training trace contains duplicate node_ids")
        return self

    @classmethod
    def from_entries(cls, entries: list[TraceEntry]) -> "TrainingTrace":
        """Return the trace of a rollout's entries.

        Args:
            entries: The entries, each with its node id in its metadata.

        Raises:
            ValueError: An entry has no node id, or can't be trained on.
        """
        return cls.model_validate({"turns": [_turn_of(number, entry) for number, entry in enumerate(entries)]})

    def to_trace_entries(self) -> list[TraceEntry]:
        """Return the turns as entries, which ``from_entries`` reads back."""
        return [
            TraceEntry(
                request=turn.request,
                response=turn.response,
                prompt_token_ids=turn.prompt_token_ids,
                completion_token_ids=turn.completion_token_ids,
                per_token_logps=turn.per_token_logps,
                loss_mask=turn.loss_mask,
                metadata={**turn.metadata, "node_id": turn.node_id},
            )
            for turn in self.turns
        ]


def _turn_of(number: int, entry: TraceEntry) -> dict[str, Any]:
    metadata = entry.get("metadata", {})
    if not isinstance(metadata.get("node_id"), str):
        raise ValueError(f"trace entry {number}: expected a text as metadata.node_id, got {metadata.get('node_id')!r}")
    return {
        "node_id": metadata["node_id"],
        "prompt_token_ids": entry.get("prompt_token_ids", []),
        "completion_token_ids": entry.get("completion_token_ids", []),
        "per_token_logps": entry.get("per_token_logps", []),
        "loss_mask": entry.get("loss_mask", []),
        "request": entry.get("request", {}),
        "response": entry.get("response", {}),
        "metadata": dict(metadata),
    }
