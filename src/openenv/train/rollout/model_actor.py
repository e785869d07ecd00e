"""Actor with a language model, which writes answers in many episodes at once and records every token."""

from collections.abc import Sequence

from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import Move
from openenv.train.generation.generator import Completion, Generator
from openenv.train.rollout.play import Limits, Play
from openenv.train.rollout.renderer import Renderer

__all__ = ["ModelActor"]


class ModelActor:
    """Actor whose model writes all answers of a turn together, and of which no token is tokenised again.

    The messages of each episode are the same conversation as text.

    Args:
        generator: Writes the answers; nothing was fed to it yet.
        renderer: Turns observations into tokens, and tokens into moves.
        limits: The limits at which episodes are cut off.
        prompts: The messages before the first observation by the episodes' numbers; ``None`` for those of the form.
    """

    def __init__(
        self,
        generator: Generator,
        renderer: Renderer,
        limits: Limits,
        prompts: Sequence[Sequence[Message]] | None = None,
    ) -> None:
        self._generator = generator
        self._renderer = renderer
        self._limits = limits
        self._prompts = prompts
        # Row i of the generator belongs to the i-th episode that is not over.
        self._completions: list[Completion] = []

    def begin(self, plays: Sequence[Play]) -> None:
        """Feed the beginnings of episodes after their resets.

        Raises:
            ConfigurationError: The beginning of an episode leaves no tokens for an answer.
        """
        for play in plays:
            prompt = None if self._prompts is None else self._prompts[play.number]
            play.messages = self._renderer.form.opening_messages(play.observation, prompt)
            play.episode.prompt_ids = self._renderer.opening(play.messages)
            self._check_length(play)
            if play.is_over:
                # Trainers refuse an empty completion.
                play.episode.add_fed([self._renderer.pad_id])
        fed = [play.episode.prompt_ids for play in plays if not play.is_over]
        if fed:
            self._generator.feed(fed)

    async def act(self, plays: Sequence[Play]) -> list[list[Move]]:
        """Return the moves of the answer that the model writes in each open episode."""
        longest = self._renderer.max_action_tokens
        limits = [min(longest, self._limits.room(play.episode)) for play in plays]
        self._completions = self._generator.generate(limits, self._renderer.stop_ids)
        answers = [self._renderer.read(completion.token_ids) for completion in self._completions]
        for play, completion, answer in zip(plays, self._completions, answers, strict=True):
            play.episode.add_written(completion.token_ids, completion.logprobs)
            play.episode.cut_answers += self._is_cut(completion)
            play.messages.append(answer.message)
        return [list(answer.moves) for answer in answers]

    def see(self, plays: Sequence[Play]) -> None:
        """Feed the results of the moves where the episode continues, and drop the rows of the others."""
        rows, fed = [], []
        for row, (play, completion) in enumerate(zip(plays, self._completions, strict=True)):
            replies = play.append_replies(self._renderer.form)
            if play.is_over:
                continue
            reply = self._renderer.reply(completion.token_ids, replies)
            if len(reply) >= self._limits.room(play.episode):
                play.cut("max_context")
                continue
            play.episode.add_fed(reply)
            rows.append(row)
            # The last token that the model wrote has not been fed yet.
            fed.append([completion.token_ids[-1], *reply])
        if rows and len(rows) < len(plays):
            self._generator.keep(rows)
        if rows:
            self._generator.feed(fed)

    def _check_length(self, play: Play) -> None:
        if play.episode.length >= self._limits.max_context:
            raise ConfigurationError(
                f"The first observation with what goes before it has {play.episode.length} tokens (reset with "
                f"{play.episode.parameters}), and max_context is {self._limits.max_context}; set a larger max_context."
            )

    def _is_cut(self, completion: Completion) -> bool:
        """Return whether an answer ended only because it may have no more tokens."""
        stop_ids = self._renderer.stop_ids
        full = len(completion.token_ids) >= self._renderer.max_action_tokens
        return bool(stop_ids) and full and completion.token_ids[-1] not in stop_ids
