"""OpenSpiel's games, and how a game is loaded."""

import json
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any

from openenv._extras import install_command

try:
    import pyspiel
except ImportError as error:
    raise ImportError(f"This needs OpenSpiel: {install_command('openspiel')}") from error

from openenv.adapters.openspiel.trial import try_game
from openenv.core.exceptions import InvalidRequestError
from openenv.core.seeding import rng

__all__ = ["Params", "game_type", "legal_actions", "load_game", "moves_are_public", "unknown_game"]

Params = dict[str, Any]
"""A game's parameters as JSON has them. A parameter that is itself a game is ``{"name": ..., further parameters}``."""

# The first has no action ids: its moves are structures that only its own code makes. The others are read from a file,
# and no client may name one.
_UNPLAYABLE = frozenset({"crossword", "efg_game", "nfg_game"})

# Moves in these are seen by all, although other things are hidden.
_PUBLIC_MOVES = frozenset(
    {
        "bridge_uncontested_bidding",
        "kuhn_poker",
        "leduc_poker",
        "liars_dice",
        "liars_dice_ir",
        "repeated_leduc_poker",
        "tiny_bridge_2p",
        "universal_poker",
    }
)


def game_type(name: str) -> Any:
    """Describe a game.

    Args:
        name: OpenSpiel's short name.

    Returns:
        Its ``pyspiel.GameType``; ``None`` if there is no such game, or it cannot be played here.
    """
    return _types().get(name)


def unknown_game(name: object) -> str:
    """Return the message for a game that cannot be played, with similar names."""
    close = get_close_matches(str(name), _types(), n=3)
    meant = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(sorted(_types()))}."
    return f"{str(name)[:40]!r} is no game that can be played here; {meant}"


def load_game(name: str, params: Params, seed: int | str) -> Any:
    """Load a game.

    Parameters that differ from the defaults are tried in a separate process first: OpenSpiel does not check them
    all, and some would end this process.

    Args:
        name: OpenSpiel's short name.
        params: Parameters that differ from the game's defaults.
        seed: Seeds the games that draw by themselves instead of leaving a chance outcome to their player.

    Returns:
        A ``pyspiel.Game``.

    Raises:
        InvalidRequestError: There is no such game, or it cannot be played with these parameters.
    """
    as_given, params = params, _checked(name, params)
    if as_given:
        _tried(name, _key(params))
    draws_itself = "rng_seed" in game_type(name).parameter_specification
    if draws_itself and "rng_seed" not in params:
        # One that is shared between episodes would draw on where the last one ended.
        return _load(name, {**params, "rng_seed": rng(seed, "game").getrandbits(31)})
    return _load(name, params) if draws_itself else _shared(name, _key(params))


def moves_are_public(game: Any) -> bool:
    """Return whether every player sees the others' moves."""
    game_type = game.get_type()
    return game_type.information != pyspiel.GameType.Information.IMPERFECT_INFORMATION or (
        game_type.short_name in _PUBLIC_MOVES
    )


def legal_actions(kind: Any, position: Any, player: int) -> list[int]:
    """List the legal actions of a player."""
    if kind.short_name != "2048":
        actions: list[int] = position.legal_actions(player)
        return actions
    # OpenSpiel's list lacks moves that only merge a tile which the last move had merged. After one that slides nothing
    # it is still the player's turn.
    return [action for action in range(position.num_distinct_actions()) if not position.child(action).is_player_node()]


@cache
def _types() -> dict[str, Any]:
    """Return the games that can be played; no mean-field games, whose chances depend on a whole population."""
    return {
        game.short_name: game
        for game in pyspiel.registered_games()
        if game.dynamics != pyspiel.GameType.Dynamics.MEAN_FIELD and game.short_name not in _UNPLAYABLE
    }


def _checked(name: str, params: Params) -> Params:
    """Return the parameters as OpenSpiel reads them, nested games included."""
    kind = game_type(name)
    if kind is None:
        raise InvalidRequestError(unknown_game(name))
    defaults = kind.parameter_specification
    checked = {key: _value(name, key, value, defaults.get(key)) for key, value in params.items()}
    if defaults.get("ansi_color_output") is True:
        checked.setdefault("ansi_color_output", False)  # observations are text for everybody
    return checked


def _value(name: str, key: str, value: Any, default: Any) -> Any:
    if ("file" in key or "root" in key) and value:
        raise InvalidRequestError(f"{name}: {key} names a file on the server, which no client may; leave it out.")
    if isinstance(default, dict):
        return _nested_game(name, key, value)
    if isinstance(default, float) and type(value) is int:
        return float(value)  # JSON writes 7.0 as 7
    if not isinstance(value, bool | int | float | str):
        raise InvalidRequestError(f"{name}: {key} is {value!r}; expected a number, a truth value or a text.")
    return value


def _nested_game(name: str, key: str, value: Any) -> Params:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise InvalidRequestError(
            f'{name}: {key} is {value!r}; expected a game, such as {{"name": "tic_tac_toe"}} with its parameters.'
        )
    inner = {key: part for key, part in value.items() if key != "name"}
    return {"name": value["name"], **_checked(value["name"], inner)}


def _key(params: Params) -> str:
    return json.dumps(params, sort_keys=True)


@lru_cache(maxsize=256)
def _tried(name: str, params_json: str) -> None:
    refusal = try_game(name, params_json)
    if refusal is not None:
        raise InvalidRequestError(f"{name} cannot be played with {params_json}: {refusal}")


@lru_cache(maxsize=256)
def _shared(name: str, params_json: str) -> Any:
    return _load(name, json.loads(params_json))


def _load(name: str, params: Params) -> Any:
    try:
        return pyspiel.load_game(name, params)
    except pyspiel.SpielError as error:
        raise InvalidRequestError(f"{name} cannot be loaded: {error}") from error
