"""Play of a game, in which chance and the other players move by themselves."""

from typing import Any

from openenv.adapters.openspiel.games import legal_actions, moves_are_public
from openenv.adapters.openspiel.models import Phase
from openenv.adapters.openspiel.opponents import OpponentPolicy, opponent
from openenv.core.seeding import rng

__all__ = ["Episode"]

# Instead of the player that is to move, in OpenSpiel's numbers.
_CHANCE, _ALL_AT_ONCE = -1, -2


class Episode:
    """A game in progress, seen by the player that is to move next for the client.

    At a node where all players move at once, those whom the client plays choose one after another, and the moves are
    made together.

    Args:
        game: A ``pyspiel.Game``.
        agent_player: The player whom the client plays; with the policy ``self`` it plays all of them.
        policy: How the other players move.
        seed: Seeds chance and, separately, the other players.

    Attributes:
        num_players: Players in the game.
        over: Whether the game has ended.
        player: The player who is to move; -4 once the game is over.
        moves: Moves made by all players.
        opponent_last_action: The latest move of another player since the client's last one, where the rules show it.
    """

    def __init__(self, game: Any, agent_player: int, policy: OpponentPolicy, seed: int | str) -> None:
        self.num_players: int = game.num_players()
        self.moves = 0
        self.opponent_last_action: int | None = None
        self._agent_player = agent_player
        self._moves_are_public = moves_are_public(game)
        self._kind = game.get_type()
        self._state = game.new_initial_state()
        self._chance = rng(seed, "chance")
        self._opponent = opponent(policy, rng(seed, "opponent"))
        self._chosen: list[int] = []  # by the first players of a node where all move at once
        self._legal_actions: list[int] | None = None  # listed when they are needed
        self._look()
        self._play_others()

    @property
    def legal_actions(self) -> list[int]:
        """Legal actions of that player; none once the game is over."""
        if self._legal_actions is None:
            self._legal_actions = legal_actions(self._kind, self._state, self.player)
        return list(self._legal_actions)

    @property
    def returns(self) -> list[float]:
        """The sum of each player's rewards so far."""
        returns: list[float] = self._state.returns()
        return returns

    def play(self, action: int) -> None:
        """Make a move for the client, and then those of chance and the others up to the client's next one.

        Args:
            action: One of ``legal_actions``.
        """
        self.opponent_last_action = None
        self._move(action)
        self._play_others()

    @property
    def position(self) -> Any:
        """The ``pyspiel.State``."""
        return self._state

    def numbers(self, *, initial: bool) -> dict[str, Any]:
        """Return the fields of an ``OpenSpielObservation`` that are numbers, and its phase.

        Args:
            initial: Whether the client has not moved yet.
        """
        not_over: Phase = "initial" if initial else "playing"
        return {
            "info_state": self.info_state(),
            "legal_actions": self.legal_actions,
            "game_phase": "terminal" if self.over else not_over,
            "current_player_id": self.player,
            "opponent_last_action": self.opponent_last_action,
        }

    def info_state(self) -> list[float]:
        """Return the knowledge of the player that is to move, as numbers; at the end, that of the client's player."""
        tensor: list[float] = []
        if self._kind.provides_information_state_tensor:
            tensor = self._state.information_state_tensor(self._viewer)
        elif self._kind.provides_observation_tensor:
            tensor = self._state.observation_tensor(self._viewer)
        return tensor

    def text(self) -> str:
        """Return that player's knowledge in words.

        Returns:
            The game's own description, and the legal actions or the result.
        """
        if self.over:
            ending = f"The game is over. Your return: {self.returns[self._viewer]:g}"
        else:
            ending = "Legal actions: " + ", ".join(self.action_names())
        return f"You are player {self._viewer} of {self._kind.short_name}.\n{self.view()}\n{ending}"

    def view(self) -> str:
        """Return the game's description of that player's knowledge."""
        if self._kind.provides_observation_string:
            view: str = self._state.observation_string(self._viewer)
        else:
            view = self._state.information_state_string(self._viewer)
        return view.rstrip()

    def action_names(self) -> list[str]:
        """Return each legal action's id and name, as in ``2 = RIGHT``."""
        player = self.player
        return [f"{action} = {self._state.action_to_string(player, action)}" for action in self.legal_actions]

    @property
    def _viewer(self) -> int:
        return self._agent_player if self.over else self.player

    def _look(self) -> None:
        """Keep the player that is to move, once a move: a call of OpenSpiel costs a quarter of a microsecond."""
        player: int = self._state.current_player()
        self._at_once = player == _ALL_AT_ONCE
        self.over: bool = self._state.is_terminal()
        self.player = len(self._chosen) if self._at_once else player
        self._legal_actions = [] if self.over else None

    def _play_others(self) -> None:
        while not self.over:
            if self.player == _CHANCE:
                self._draw()
            elif self._opponent is None or self.player == self._agent_player:
                return
            else:
                self._move(self._opponent(self.legal_actions))

    def _draw(self) -> None:
        outcomes, weights = zip(*self._state.chance_outcomes(), strict=True)
        self._state.apply_action(self._chance.choices(outcomes, weights)[0])
        self._look()

    def _move(self, action: int) -> None:
        self.moves += 1
        if self._at_once:
            self._choose(action)
        else:
            self._state.apply_action(action)
            self._show({self.player: action})
        self._look()

    def _choose(self, action: int) -> None:
        """Keep a move until all players that move at once have chosen, and then make them all."""
        self._chosen.append(action)
        if len(self._chosen) == self.num_players:
            moves, self._chosen = self._chosen, []
            self._state.apply_actions(moves)
            self._show(dict(enumerate(moves)))

    def _show(self, moves: dict[int, int]) -> None:
        """Show the client the moves of the others; a move made at once with others only when all have moved."""
        others = [action for player, action in moves.items() if player != self._agent_player]
        if others and self._opponent is not None and self._moves_are_public:
            self.opponent_last_action = others[-1]
