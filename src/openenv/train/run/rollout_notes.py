"""What a run notes of its rollouts: a line for each step in ``rollouts.jsonl``, and traces."""

import logging
from collections.abc import Mapping
from typing import Any

from openenv.records.run_folder import RunFolder
from openenv.train.dataset.rollout_traces import RolloutTraces
from openenv.train.rollout.play import Play
from openenv.train.spec.rollout_recorder import RolloutBatch

__all__ = ["RolloutNotes"]

logger = logging.getLogger(__name__)


class RolloutNotes:
    """Notes the episodes of a run, as a `RolloutRecorder`.

    Args:
        folder: The run's folder; its ``rollouts.jsonl`` gets a line for each environment in each optimiser step.
        traces: Records the same episodes in full.
    """

    def __init__(self, folder: RunFolder, traces: RolloutTraces) -> None:
        self._folder = folder
        self._traces = traces
        self._is_failing = False

    def named(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a reset is passed, with an ``episode_id`` where its episode is to be recorded."""
        return self._traces.named(parameters)

    def add(self, batch: RolloutBatch) -> None:
        """Note episodes."""
        episodes = [self._note_of(play, group) for play, group in zip(batch.plays, batch.groups, strict=True)]
        try:
            self._folder.add_rollouts({"step": batch.step, "environment": batch.environment, "episodes": episodes})
        except OSError as error:
            if not self._is_failing:
                self._is_failing = True
                logger.warning("%s can't be written, so episodes may be missing: %s", self._folder.rollouts, error)
        self._traces.add(batch)

    def _note_of(self, play: Play, group: int) -> dict[str, Any]:
        episode = play.episode
        note = {
            "episode_id": episode.episode_id if self._traces.has(episode.episode_id) else None,
            "group": group,
            "task": episode.parameters,
            "reward": episode.reward,
            "reward_components": episode.reward_components,
            "length": len(episode.turns),
            "illegal_actions": episode.illegal_actions,
            "cut_by": episode.cut_by,
            "error": None if episode.error is None else str(episode.error),
        }
        return {name: value for name, value in note.items() if value not in (None, {})}
