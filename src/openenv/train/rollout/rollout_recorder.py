"""Recorder of a rollout function's episodes, and the batches that it records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from openenv.train.rollout.play import Play

__all__ = ["RolloutBatch", "RolloutRecorder"]


@dataclass(frozen=True)
class RolloutBatch:
    """Episodes of one environment that were played together, for training or for an evaluation.

    Attributes:
        environment: Name of the environment among several; empty for a single one.
        step: Optimiser step that they were played for, from 1.
        plays: The episodes.
        groups: Number of each episode's group, from 0; episodes of a group have the same prompt.
        sampling: Settings that the model's answers were sampled with, by name.
        tools: Tools that were offered, as chat templates take them; empty where actions are texts.
        token_texts: The texts of the episodes' tokens by their ids.
        evaluation: Name of the evaluation that they are part of; empty for episodes that are trained on.
        player: Name of their player; empty for the model that is trained.
    """

    environment: str
    step: int
    plays: Sequence[Play]
    groups: Sequence[int]
    sampling: Mapping[str, Any]
    tools: Sequence[Mapping[str, Any]] = ()
    token_texts: Mapping[int, str] = field(default_factory=dict)
    evaluation: str = ""
    player: str = ""


class RolloutRecorder(Protocol):
    """Recorder of a rollout function's episodes."""

    def named(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return a reset's parameters, with an ``episode_id``, or their own, where its episode is to be recorded."""
        ...

    def add(self, batch: RolloutBatch) -> None:
        """Record episodes, without blocking, and without an error: training continues without a record."""
        ...
