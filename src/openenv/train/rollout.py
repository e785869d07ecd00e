"""Rollouts: a language model plays many episodes at once, all environments stepped together."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from openenv.train.episodes import Episode
from openenv.train.generation.answers import Writer
from openenv.train.generation.decoder import Decoder
from openenv.train.generation.sampling import Sampling
from openenv.train.playing import ActionDialogue, Limits, play_episodes
from openenv.train.sessions import Sessions

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

__all__ = ["ModelPlayer"]


class ModelPlayer:
    """Plays episodes with a language model, one session for each.

    Args:
        model: A causal language model of ``transformers``.
        dialogue: Turns episodes into tokens, and tokens into actions.
        sessions: The environment.
        max_turns: Actions after which an episode is cut off.
        max_context: Tokens after which an episode is cut off.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        dialogue: ActionDialogue,
        sessions: Sessions,
        *,
        max_turns: int,
        max_context: int,
    ) -> None:
        self.model = model
        self._dialogue = dialogue
        self._sessions = sessions
        self._max_turns = max_turns
        self._max_context = max_context

    def play(self, seeds: Sequence[int], *, temperature: float, generator: "torch.Generator") -> list[Episode]:
        """Play one episode for each seed, all at once.

        Args:
            seeds: Seeds of the resets, at most as many as there are sessions.
            temperature: Of sampling; 0 takes the most likely token.
            generator: Source of randomness, on the model's device.

        Returns:
            The episodes, in the order of the seeds.

        Raises:
            OpenEnvError: The environment failed in more than half of the episodes.
        """
        return self.play_tasks([{"seed": seed} for seed in seeds], temperature=temperature, generator=generator)

    def play_tasks(
        self, tasks: Sequence[Mapping[str, Any]], *, temperature: float, generator: "torch.Generator | Sequence[Random]"
    ) -> list[Episode]:
        """Play one episode for each task, all at once.

        Args:
            tasks: What each reset is passed, its seed among it; at most as many as there are sessions.
            temperature: Of sampling; 0 takes the most likely token.
            generator: Source of randomness, on the model's device; or one for each episode, whose draws then depend on
                no other episode.

        Returns:
            The episodes, in the order of the tasks.

        Raises:
            OpenEnvError: The environment failed in more than half of the episodes.
        """
        was_training = self.model.training
        self.model.eval()  # type: ignore[no-untyped-call]
        try:
            return self.play_with(Decoder(self.model, self._dialogue.pad_id, Sampling(temperature), generator), tasks)
        finally:
            self.model.train(was_training)

    def play_with(self, writer: Writer, tasks: Sequence[Mapping[str, Any]]) -> list[Episode]:
        """Play one episode for each task, all at once, with answers that something else writes for the model.

        Args:
            writer: Writes the answers; nothing was fed to it yet.
            tasks: What each reset is passed, its seed among it; at most as many as there are sessions.

        Returns:
            The episodes, in the order of the tasks.

        Raises:
            OpenEnvError: The environment failed in more than half of the episodes.
        """
        episodes = [Episode.of_task(task) for task in tasks]
        play_episodes(
            episodes,
            [None] * len(tasks),
            self._sessions.try_reset(tasks),
            writer=writer,
            dialogue=self._dialogue,
            step=self._sessions.step,
            limits=Limits(self._max_turns, self._max_context),
        )
        return episodes
