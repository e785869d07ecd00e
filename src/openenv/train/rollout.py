"""Rollouts: a language model plays many episodes at once, all environments stepped together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError
from openenv.train.dialogue import Dialogue
from openenv.train.episodes import Episode, raise_if_most_failed
from openenv.train.generation import Answer, Decoder
from openenv.train.sessions import Sessions

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

__all__ = ["ModelPlayer", "rollout_fields"]


class ModelPlayer:
    """Plays episodes with a language model, one session for each.

    Args:
        model: A causal language model of ``transformers``.
        dialogue: Turns observations and actions into tokens.
        actions: Reads actions from text.
        sessions: The environment.
        max_turns: Actions after which an episode is cut off.
        max_context: Tokens after which an episode is cut off.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        dialogue: Dialogue,
        actions: ActionText,
        sessions: Sessions,
        *,
        max_turns: int,
        max_context: int,
    ) -> None:
        self.model = model
        self._dialogue = dialogue
        self._actions = actions
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
            OpenEnvError: A reset failed, or the environment failed in more than half of the episodes.
        """
        was_training = self.model.training
        self.model.eval()  # type: ignore[no-untyped-call]
        try:
            decoder = Decoder(self.model, self._dialogue.pad_id, temperature, generator)
            return _Rollout(self, decoder, seeds).run()
        finally:
            self.model.train(was_training)


class _Rollout:
    """The state of one batch of episodes. Row ``i`` of the decoder belongs to the episode ``playing[i]``."""

    def __init__(self, player: ModelPlayer, decoder: Decoder, seeds: Sequence[int]) -> None:
        self._dialogue = player._dialogue
        self._actions = player._actions
        self._sessions = player._sessions
        self._max_turns = player._max_turns
        self._max_context = player._max_context
        self._decoder = decoder
        self.episodes = [Episode(seed) for seed in seeds]
        self._playing = list(range(len(seeds)))
        self._shown = [""] * len(seeds)

    def run(self) -> list[Episode]:
        self._open()
        while self._playing:
            limits = [self._room(self.episodes[slot]) for slot in self._playing]
            answers = self._decoder.answer(limits, self._dialogue.stop_ids)
            self._act(answers)
            self._continue(answers)
        raise_if_most_failed(self.episodes)
        return self.episodes

    def _open(self) -> None:
        results = self._sessions.reset([episode.seed for episode in self.episodes])
        for slot, (episode, result) in enumerate(zip(self.episodes, results, strict=True)):
            self._shown[slot] = observation_text(result.observation)
            episode.prompt_ids = self._dialogue.opening(self._shown[slot])
            if episode.length >= self._max_context:
                raise ConfigurationError(
                    f"The first observation with what goes before it has {episode.length} tokens (seed "
                    f"{episode.seed}), and max_context is {self._max_context}; set a larger max_context."
                )
        self._decoder.feed([episode.prompt_ids for episode in self.episodes])

    def _room(self, episode: Episode) -> int:
        return min(self._dialogue.max_action_tokens, self._max_context - episode.length)

    def _act(self, answers: Sequence[Answer]) -> None:
        """Send every action and note what came of it."""
        texts = [self._dialogue.action_text(answer.token_ids) for answer in answers]
        readings = [self._actions.read(text) for text in texts]
        sent = {
            slot: reading.action
            for slot, reading in zip(self._playing, readings, strict=True)
            if reading.action is not None
        }
        outcomes = self._sessions.step(sent)
        for slot, answer, text, reading in zip(self._playing, answers, texts, readings, strict=True):
            outcome = outcomes.get(slot)
            self.episodes[slot].add_written(answer.token_ids, answer.logprobs)
            self.episodes[slot].add_turn(self._shown[slot], text, outcome, reading.problem)
            if isinstance(outcome, StepResult):
                self._shown[slot] = observation_text(outcome.observation)

    def _continue(self, answers: Sequence[Answer]) -> None:
        """Feed those that play on; drop the others."""
        rows, fed = [], []
        for row, (slot, answer) in enumerate(zip(self._playing, answers, strict=True)):
            episode = self.episodes[slot]
            if episode.is_over(self._max_turns):
                continue
            reply = self._dialogue.between(answer.token_ids, self._shown[slot], episode.turns[-1].problem)
            if episode.length + len(reply) >= self._max_context:
                continue
            episode.add_fed(reply)
            rows.append(row)
            # The last token that the model wrote has not been fed yet.
            fed.append([answer.token_ids[-1], *reply])
        if rows and len(rows) < len(self._playing):
            self._decoder.keep(rows)
        self._playing = [self._playing[row] for row in rows]
        if rows:
            self._decoder.feed(fed)


def rollout_fields(episodes: Sequence[Episode], illegal_penalty: float) -> dict[str, list[Any]]:
    """Bring episodes into the form that TRL's ``rollout_func`` returns.

    Args:
        episodes: The episodes of a batch.
        illegal_penalty: Taken from an episode's reward for each illegal action.

    Returns:
        ``prompt_ids``, ``completion_ids``, ``logprobs`` and ``env_mask``, and for the reward function
        ``training_reward`` (``None`` where the environment failed), ``episode_reward``, ``episode_length`` and
        ``illegal_actions``. See https://huggingface.co/docs/trl/grpo_trainer.
    """
    return {
        "prompt_ids": [episode.prompt_ids for episode in episodes],
        "completion_ids": [episode.completion_ids for episode in episodes],
        "logprobs": [episode.logprobs for episode in episodes],
        "env_mask": [episode.env_mask for episode in episodes],
        "training_reward": [
            None if episode.error else episode.reward - illegal_penalty * episode.illegal_actions
            for episode in episodes
        ],
        "episode_reward": [episode.reward for episode in episodes],
        "episode_length": [len(episode.turns) for episode in episodes],
        "illegal_actions": [episode.illegal_actions for episode in episodes],
    }
