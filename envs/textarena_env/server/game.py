"""One game of TextArena in progress: texts in, messages out."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from difflib import get_close_matches
from enum import Enum
from threading import Lock
from typing import Any

from openenv.core.exceptions import InvalidRequestError

from ..models import GAME, TRANSCRIPT, TextArenaMessage
from . import library
from .chance import Chance

MOST_PLAYERS = 15

# These take fewer players than they are made for, and then fail at some later move.
_AT_LEAST = {"MarketEntryGame": 4, "PublicGoodsGame": 3, "QuantumTicTacToe": 2, "SpiteAndMalice": 2}

# Some games lay out their board in variables of their module, which all sessions share; and what the first one loads,
# such as words, must not be loaded by each of many that begin together.
_locks: defaultdict[str, Lock] = defaultdict(Lock)

# What games raise of themselves for a number of players that they are not made for.
_UNSUITABLE = (AssertionError, ValueError)


class Game:
    """A game in progress.

    Copies share nothing that changes; the large dictionaries of some games are shared.

    Args:
        env_id: TextArena's id of the game.
        num_players: How many play.
        seed: The same seed makes the same game.
        options: What the game's class is to be called with beside, or instead of, what the id stands for.

    Raises:
        InvalidRequestError: There is no such game, it does not run here, or it is not for so many players.

    Attributes:
        env_id: TextArena's id of the game.
        name: The game without its variants, as in ``Wordle``.
    """

    def __init__(self, env_id: str, num_players: int, seed: int | str, options: Mapping[str, Any]) -> None:
        spec = _spec(env_id)
        self.env_id = env_id
        self.name = game_name(env_id)
        self._chance = Chance(seed)
        with self._chance.in_use():
            with _locks[self.name]:
                self._game = self._made(spec, options)
                self._refuse_too_few(num_players)
                self._begin(num_players)
            self._env, self._view = self._game, None
            for wrapper in spec.default_wrappers or ():
                self._env = wrapper(self._env)
                if issubclass(wrapper, library.observation_wrapper()):
                    self._view = self._env

    @property
    def num_players(self) -> int:
        """Number of players."""
        players: int = self._game.state.num_players
        return players

    @property
    def player(self) -> int:
        """Player that is to move."""
        player: int = self._game.state.current_player_id
        return player

    @property
    def turn(self) -> int:
        """Turns so far."""
        turn: int = self._game.state.turn
        return turn

    @property
    def own_max_turns(self) -> int | None:
        """Turns after which the game ends by its own rules, where it has such a rule."""
        turns: int | None = self._game.state.max_turns
        return turns

    @property
    def over(self) -> bool:
        """Return whether the game has ended."""
        return bool(self._game.state.done)

    @property
    def rewards(self) -> dict[int, float]:
        """TextArena's number for each player; only once the game has ended."""
        return {int(player): _number(reward) for player, reward in (self._game.state.rewards or {}).items()}

    def reason(self, player: int) -> str:
        """Reason of the game's end, in the words for a player; only once it has ended."""
        info: Mapping[int, Mapping[str, Any]] = self._game.state.game_info
        return str(info.get(player, {}).get("reason", ""))

    def play(self, text: str) -> bool:
        """Let the player who is to move write something.

        Args:
            text: The text.

        Returns:
            Whether the game took it for a legal move.
        """
        mover = self.player
        with self._chance.in_use():
            self._env.step(action=text)
        state = self._game.state
        refused_again = bool(state.game_info.get(mover, {}).get("invalid_move"))
        return not refused_again and not getattr(state, "error_count", 0)

    def first_legal(self, texts: Iterable[str]) -> str | None:
        """Find a legal move by trying, on a copy.

        Args:
            texts: What to try, in this order.

        Returns:
            The first that is a legal move of the player who is to move; ``None`` where none is.
        """
        trial = deepcopy(self)
        for text in texts:
            if trial.play(text):
                return text
            trial.forgive()
        return None

    def forgive(self) -> None:
        """Forget that the last text was refused: two such in a row end most games."""
        self._game.state.error_count = 0

    def unread(self, player: int) -> list[TextArenaMessage]:
        """Take the messages that a player has not had yet."""
        if player == self.player and not self.over:
            with self._chance.in_use():
                said = self._game.get_observation()[1]
        else:
            said, self._game.state.observations[player] = self._game.state.observations[player], []
        return [
            TextArenaMessage(sender_id=one, content=str(text), category=_category(kind)) for one, text, kind in said
        ]

    def transcript(self, player: int, new: list[TextArenaMessage]) -> list[TextArenaMessage]:
        """Show a player everything that it has had so far, as the game's id is registered to show it.

        Args:
            player: The player.
            new: What ``unread`` returned.

        Returns:
            One message with everything; for an id that ends in ``-raw``, the new messages as they are.
        """
        if self._view is None:
            return new
        kinds = library.message_kinds()
        raw = [(one.sender_id, one.content, kinds.get(one.category, one.category)) for one in new]
        text: str = self._view.observation(player, raw)
        return [TextArenaMessage(sender_id=GAME, content=text, category=TRANSCRIPT)]

    def speaker(self, sender: int) -> str:
        """Name a sender as TextArena's own transcripts do."""
        names: Mapping[int, str] = self._game.state.role_mapping
        return "GAME" if sender == GAME else names.get(sender, f"Player {sender}")

    def _made(self, spec: Any, options: Mapping[str, Any]) -> Any:
        try:
            game = library.game_class(spec.entry_point)(**{**spec.kwargs, **options})
        except Exception as error:  # whatever a game of TextArena raises of itself
            raise _unplayable(self.env_id, error) from error
        if self.name == "WordChains":  # it keeps the words in the order of a set, which each process has its own
            game.word_list.sort()
        return game

    def _refuse_too_few(self, num_players: int) -> None:
        least = _AT_LEAST.get(self.name, 1)
        if num_players < least:
            raise UnsuitablePlayersError(self.env_id, num_players, f"it is made for {least}")

    def _begin(self, num_players: int) -> None:
        try:
            self._game.reset(num_players=num_players, seed=self._chance.python.getrandbits(32))
        except _UNSUITABLE as error:
            raise UnsuitablePlayersError(self.env_id, num_players, str(error)) from error
        except Exception as error:
            raise _unplayable(self.env_id, error) from error


class UnsuitablePlayersError(InvalidRequestError):
    """A game is not for so many players; turned into a sentence for the client where any number would have done."""

    def __init__(self, env_id: str, num_players: int, reason: str) -> None:
        super().__init__(f"{env_id} can't be played with num_players={num_players}: {reason}.")


def start(env_id: str, num_players: int | None, least: int, seed: int | str, options: Mapping[str, Any]) -> Game:
    """Start a game.

    Args:
        env_id: TextArena's id of the game.
        num_players: How many play; ``None`` for the smallest number that the game takes.
        least: The smallest number to try then.
        seed: The same seed makes the same game.
        options: See `Game`.

    Returns:
        The game, with its first messages unread.

    Raises:
        InvalidRequestError: See `Game`.
    """
    if num_players is not None:
        return Game(env_id, num_players, seed, options)
    for players in range(least, MOST_PLAYERS):
        try:
            return Game(env_id, players, seed, options)
        except UnsuitablePlayersError:
            continue
    return Game(env_id, MOST_PLAYERS, seed, options)


def game_name(env_id: str) -> str:
    """Return the game of an id without its variants: ``Wordle`` for ``Wordle-v0-long-raw``."""
    entry_point: str = _spec(env_id).entry_point
    return entry_point.split(".")[2]


def _number(reward: object) -> float:
    # Countdown and Slitherlink give the reason of a refused move in place of its reward.
    return float(reward) if isinstance(reward, int | float) else 0.0


def _category(kind: object) -> str:
    # Some games write the name of the kind.
    return kind.name if isinstance(kind, Enum) else str(kind)


def _spec(env_id: str) -> Any:
    known = library.registry()
    if env_id not in known:
        close = get_close_matches(env_id, known, n=3, cutoff=0.4)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        raise InvalidRequestError(
            f"TextArena has no game with the id {env_id!r}; expected one such as Wordle-v0.{hint}"
        )
    return known[env_id]


def _unplayable(env_id: str, error: Exception) -> InvalidRequestError:
    return InvalidRequestError(
        f"{env_id} can't be played here: {type(error).__name__}: {error}. Choose another game, or supply what it needs."
    )
