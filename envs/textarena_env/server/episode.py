"""An episode: a game as the client sees it, in which opponents move by themselves."""

from collections.abc import Mapping
from typing import Any

from ..models import History, TextArenaMessage, TextArenaObservation
from .game import Game
from .opponents import Opponent

PROMPT = "PROMPT"


class Episode:
    """A game in progress, seen by the player whom the client plays.

    Args:
        game: The game, with nobody having moved.
        seat: The client's; ``None`` if it plays all of them.
        opponents: Who plays the other seats.
        history: What an observation shows.
        max_turns: Messages of all players after which the episode is cut off, if any.

    Attributes:
        game: The game.
        max_turns: As given.
        messages: How many all players wrote.
    """

    def __init__(
        self, game: Game, seat: int | None, opponents: Mapping[int, Opponent], history: History, max_turns: int | None
    ) -> None:
        self.game = game
        self.max_turns = max_turns
        self.messages = 0
        self._seat = seat
        self._opponents = opponents
        self._history = history
        self._prompts: dict[int, str] = {}
        self._last_mover = game.player
        self._let_opponents_move()

    @property
    def truncated(self) -> bool:
        """Whether ``max_turns`` cut it off, not the game's own end."""
        return not self.game.over and self.max_turns is not None and self.messages >= self.max_turns

    @property
    def over(self) -> bool:
        """Whether nobody can move any more."""
        return self.game.over or self.truncated

    @property
    def viewer(self) -> int:
        """Whose observation the client gets: the client's player, or with all of them whoever is to move."""
        if self._seat is not None:
            return self._seat
        return self._last_mover if self.over else self.game.player

    @property
    def rewarded(self) -> int:
        """Whose reward the client gets: the client's player, or with all of them whoever moved last."""
        return self._last_mover if self._seat is None else self._seat

    def play(self, text: str) -> None:
        """Write something for the client's player, and let the opponents move up to the client's next turn.

        Args:
            text: What to write.
        """
        self._write(text)
        self._let_opponents_move()

    def observe(
        self, reward: float | None = None, info: Mapping[str, Any] | None = None
    ) -> tuple[TextArenaObservation, list[TextArenaMessage]]:
        """Take what the client's player has not seen yet.

        Args:
            reward: The observation's reward.
            info: The observation's ``info``.

        Returns:
            The observation, and the new messages, which a cumulative history hides in it.
        """
        player = self.viewer
        first = player not in self._prompts
        observation = self._observation(player, reward, info)
        new = observation.messages
        if self._history == "cumulative":
            observation.messages = self.game.transcript(player, new)
            observation.prompt = observation.messages[0].content if first and observation.messages else self.game.env_id
        return observation, new

    def _observation(
        self, player: int, reward: float | None = None, info: Mapping[str, Any] | None = None
    ) -> TextArenaObservation:
        new = self.game.unread(player)
        rules = "\n".join(message.content for message in new if message.category == PROMPT)
        return TextArenaObservation(
            prompt=self._prompts.setdefault(player, rules) or self.game.env_id,
            messages=new,
            current_player_id=player,
            legal_players=[] if self.over else [player],
            text="\n".join(f"[{self.game.speaker(message.sender_id)}] {message.content}" for message in new),
            done=self.over,
            reward=reward,
            info=dict(info or {}),
            metadata={"env_id": self.game.env_id, "turn": self.game.turn},
        )

    def _let_opponents_move(self) -> None:
        while not self.over and self.game.player in self._opponents:
            player = self.game.player
            self._write(self._opponents[player].move(self.game, self._observation(player)))

    def _write(self, text: str) -> None:
        self._last_mover = self.game.player
        self.messages += 1
        self.game.play(text)
