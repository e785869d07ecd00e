"""Progress of episodes that are played: how many have ended, their mean reward, and the tokens of their model."""

from typing import Any

from rich.console import Console

from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.progress import WorkProgress

__all__ = ["PlayProgress"]


class PlayProgress(WorkProgress):
    """Progress of episodes; ``options`` are those of `WorkProgress`."""

    def __init__(self, console: Console, total: int, done: int = 0, **options: Any) -> None:
        super().__init__(console, "episodes", total, done, **options)
        self._rewards: list[float] = []
        # Tokens that a model has written in the episodes that have ended.
        self._tokens = 0

    def add(self, played: PlayedEpisode) -> None:
        """Count an episode that has ended; one that failed has no reward."""
        if played.episode.error is None:
            self._rewards.append(played.episode.reward)
        self._tokens += 0 if played.usage is None else played.usage.output_tokens or 0
        mean = f"mean reward {sum(self._rewards) / len(self._rewards):+.3f}" if self._rewards else ""
        speed = f"{self._tokens / self.seconds:,.0f} tokens/s" if self._tokens else ""
        self.advance(self._done + 1, mean, speed)
