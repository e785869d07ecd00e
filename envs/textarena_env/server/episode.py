"""An episode: a game as the client sees it, in which opponents move by themselves."""

from collections.abc import Mapping
from typing import Any

from openenv.agents import participants_metadata

from ..models import History, TextArenaMessage, TextArenaObservation
from .game import Game
from .opponents import Opponent, ParticipantOpponent

PROMPT = "PROMPT"


class Episode:
    """A game in progress, as the client's player sees it.

    Args:
        game: The game, before its first move.
        player_id: The client's player; ``None`` if the client plays all players.
        opponents: The opponents, by the ids of their players.
        history: What an observation shows.
        max_turns: Messages of all players after which the episode is cut off, if any.

    Attributes:
        game: The game.
        max_turns: As given.
        messages: Number of messages that all players have written.
    """

    def __init__(
        self,
        game: Game,
        player_id: int | None,
        opponents: Mapping[int, Opponent],
        history: History,
        max_turns: int | None,
    ) -> None:
        self.game = game
        self.max_turns = max_turns
        self.messages = 0
        self._player_id = player_id
        self._opponents = opponents
        self._history = history
        self._prompts: dict[int, str] = {}
        self._last_mover = game.player
        self._let_opponents_move()

    @property
    def truncated(self) -> bool:
        """Return whether the episode was cut off by ``max_turns``, before the game's end."""
        return not self.game.over and self.max_turns is not None and self.messages >= self.max_turns

    @property
    def over(self) -> bool:
        """Return whether no player can move any more."""
        return self.game.over or self.truncated

    @property
    def awaits_opponent(self) -> bool:
        """Return whether an opponent is to move, which has failed: it moves at once otherwise."""
        return not self.over and self.game.player in self._opponents

    @property
    def observing_player(self) -> int:
        """The player whose observation the client gets: its own, or the next to move where it plays all players."""
        if self._player_id is not None:
            return self._player_id
        return self._last_mover if self.over else self.game.player

    @property
    def rewarded_player(self) -> int:
        """The player whose reward the client gets: its own, or the last to move where it plays all players."""
        return self._last_mover if self._player_id is None else self._player_id

    def play(self, text: str) -> None:
        """Send a message of the client's player, and let the opponents move up to the client's next turn.

        Args:
            text: The message.
        """
        self._write(text)
        self._let_opponents_move()

    def observe(
        self, reward: float | None = None, info: Mapping[str, Any] | None = None
    ) -> tuple[TextArenaObservation, list[TextArenaMessage]]:
        """Return what the client's player has not seen yet.

        Args:
            reward: The observation's reward.
            info: The observation's ``info``.

        Returns:
            The observation, and the new messages, which a cumulative history hides in it.
        """
        player = self.observing_player
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
            metadata={"env_id": self.game.env_id, "turn": self.game.turn, **self._participants()},
        )

    def _participants(self) -> dict[str, Any]:
        chats = [each.chat for each in self._opponents.values() if isinstance(each, ParticipantOpponent)]
        return participants_metadata(chats) if chats else {}

    def _let_opponents_move(self) -> None:
        while not self.over and self.game.player in self._opponents:
            player = self.game.player
            self._write(self._opponents[player].move(self.game, self._observation(player)))

    def _write(self, text: str) -> None:
        self._last_mover = self.game.player
        self.messages += 1
        self.game.play(text)
