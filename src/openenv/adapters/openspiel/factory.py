"""Maker of a game's environment by its id, as in ``openenv serve openspiel:tic_tac_toe``."""

from functools import partial
from typing import Any, get_args

from openenv.adapters.ids import read_id
from openenv.adapters.openspiel.environment import OpenSpielEnvironment
from openenv.adapters.openspiel.games import game_type, load_game, unknown_game
from openenv.adapters.openspiel.opponents import OpponentPolicy
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, InvalidRequestError

# The client plays all players where there is no opponent.
_POLICIES: dict[str, OpponentPolicy] = {
    "none": "self",
    **{policy: policy for policy in get_args(OpponentPolicy) if policy != "self"},
}


def environment_for(game_id: str) -> partial[OpenSpielEnvironment]:
    """Return a maker of the environment of a game, to be served or used in this process.

    Args:
        game_id: OpenSpiel's short name of the game. Parameters may follow, as in
            ``connect_four?rows=5&seat=1&opponents=first``: ``seat`` is the player whom the client plays, by default 0;
            ``opponents`` is the policy of the others: ``random``, the default, or ``first``, ``last`` or ``middle`` of
            their legal moves; with ``none`` the client plays them too. All others are the game's own.

    Raises:
        EnvironmentNotFoundError: OpenSpiel has no such game; the message lists those with a similar name.
        ConfigurationError: The game has no such seat or parameters, or there is no such policy.

    Example:
        >>> environment_for("catch?rows=7").args
        ('catch', {'rows': 7}, 0, 'random')
    """
    name, params = read_id(game_id)
    seat, opponents = params.pop("seat", 0), params.pop("opponents", "random")
    if game_type(name) is None:
        raise EnvironmentNotFoundError(unknown_game(name))
    if opponents not in _POLICIES:
        raise ConfigurationError(
            f"Expected opponents of openspiel:{name} to be one of {', '.join(_POLICIES)}, got {opponents!r}."
        )
    _check_game(name, params, seat)
    return partial(OpenSpielEnvironment, name, params, seat, _POLICIES[opponents])


def _check_game(name: str, params: dict[str, Any], seat: object) -> None:
    try:
        players = load_game(name, params, seed=0).num_players()
    except InvalidRequestError as error:
        raise ConfigurationError(str(error)) from error
    if type(seat) is not int or seat not in range(players):
        raise ConfigurationError(f"Expected seat of openspiel:{name} to be from 0 to {players - 1}, got {seat!r}.")
