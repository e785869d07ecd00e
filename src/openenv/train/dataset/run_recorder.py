"""Recorder of a training's episodes: a line for each optimiser step in ``rollouts.jsonl``, and traces."""

import logging
from typing import Any

from openenv.records.run_folder import RunFolder
from openenv.train.dataset.rollout_traces import RolloutTraces
from openenv.train.rollout.play import Play
from openenv.train.rollout.rollout_recorder import RolloutBatch
from openenv.train.settings.config import TrainConfig

__all__ = ["RunRecorder"]

logger = logging.getLogger(__name__)


class RunRecorder(RolloutTraces):
    """Recorder of a run's episodes: traces of all, and lines of ``rollouts.jsonl`` of those that are trained on."""

    def __init__(self, config: TrainConfig, folder: RunFolder) -> None:
        environments = {name: part.environment for name, part in config.parts.items()}
        share = config.traces_sample if config.traces else 0.0
        super().__init__(folder.traces, config.model, environments, share, config.traces_leave_out)
        self._folder = folder
        # Set when a line could not be written, so that this is logged once.
        self._has_failed = False

    def add(self, batch: RolloutBatch) -> None:
        """Record episodes."""
        if not batch.evaluation:
            self._add_line(batch)
        super().add(batch)

    def _add_line(self, batch: RolloutBatch) -> None:
        episodes = [self._fields_of(play, group) for play, group in zip(batch.plays, batch.groups, strict=True)]
        try:
            self._folder.add_rollouts({"step": batch.step, "environment": batch.environment, "episodes": episodes})
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                logger.warning("%s can't be written, so episodes may be missing: %s", self._folder.rollouts, error)

    def _fields_of(self, play: Play, group: int) -> dict[str, Any]:
        episode = play.episode
        fields = {
            "episode_id": episode.episode_id if self.has(episode.episode_id) else None,
            "group": group,
            "task": episode.parameters,
            "reward": episode.reward,
            "reward_components": episode.reward_components,
            "length": len(episode.turns),
            "illegal_actions": episode.illegal_actions,
            "cut_by": episode.cut_by,
            "error": None if episode.error is None else str(episode.error),
        }
        return {name: value for name, value in fields.items() if value not in (None, {})}
