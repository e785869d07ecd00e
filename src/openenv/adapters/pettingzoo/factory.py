"""Classes of PettingZoo's games, made from their ids; other processes import them by their names."""

import inspect
from functools import cache
from typing import Any

import pettingzoo
from gymnasium import Space
from pettingzoo.env_registry.exceptions import PettingZooRegistryError

from openenv.adapters.class_names import ARGUMENT_FAULTS, class_by_name, name_classes
from openenv.adapters.docstrings import first_paragraph
from openenv.adapters.gymnasium.space_environment import ClassesOfId, make_classes
from openenv.adapters.ids import did_you_mean, read_id
from openenv.adapters.pettingzoo.environment import PettingZooEnvironment
from openenv.adapters.pettingzoo.opponents import Seating, find_opponent
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

__all__ = ["environment_class"]


def environment_class(env_id: str) -> type[PettingZooEnvironment[Any, Any]]:
    """Make the class of a turn-based game, to be served or used in this process.

    One game is made and closed for its spaces.

    Args:
        env_id: PettingZoo's id, as in ``classic/tictactoe-v3``. Parameters may follow it, as in
            ``classic/connect_four-v3?seat=player_1&opponents=none``: ``seat`` is the one that the client plays, by
            default the first; ``opponents`` plays the others: ``random``, the default, makes any legal move,
            ``NAME@URL`` is a model behind an address, ``module:name`` is a function of your own (see ``Opponent``) or a
            participant (see ``openenv.agents``), and with ``none`` the client plays every seat in turn. Others are
            passed to ``pettingzoo.make``, such as ``render_mode=rgb_array``.

    Raises:
        EnvironmentNotFoundError: PettingZoo has no such game; the message lists those with a similar id.
        ConfigurationError: It can't be made, has no such seat, or one of its spaces has no form in JSON.
    """
    environment: type[PettingZooEnvironment[Any, Any]] = _classes_of(env_id).environment
    return environment


def __getattr__(name: str) -> type:
    """Return a class that was pickled by its name."""
    return class_by_name(__name__, name, _classes_of)


@cache
def _classes_of(env_id: str) -> ClassesOfId:
    name, arguments = read_id(env_id)
    seat, opponents = arguments.pop("seat", None), arguments.pop("opponents", "random")
    opponent = None if opponents in ("none", None) else find_opponent(str(opponents))
    game = _make(env_id, name, arguments)
    try:
        if "ansi" in game.metadata.get("render_modes", ()):  # pictures are drawn on what can't be copied
            arguments = {"render_mode": "ansi", **arguments}
        classes = _classes(name, arguments, game, Seating(_seat(env_id, seat, game), opponent))
    finally:
        game.close()
    name_classes(classes, __name__, env_id)
    return classes


def _make(env_id: str, name: str, arguments: dict[str, Any]) -> Any:
    try:
        return pettingzoo.make("aec", _known(name), **arguments)
    except (PettingZooRegistryError, *ARGUMENT_FAULTS) as error:
        raise ConfigurationError(f"pettingzoo:{env_id} can't be made: {error}") from error


def _known(name: str) -> Any:
    try:
        return pettingzoo.spec("aec", name)
    except PettingZooRegistryError as error:
        close = did_you_mean(name, pettingzoo.aec_registry)
        raise EnvironmentNotFoundError(
            f"PettingZoo has no turn-based game {name!r}.{close} It knows those that are registered."
        ) from error


def _seat(env_id: str, seat: str | None, game: Any) -> str:
    if seat is not None and seat not in game.possible_agents:
        seats = ", ".join(game.possible_agents)
        raise ConfigurationError(f"pettingzoo:{env_id} has no seat {seat!r}; expected one of {seats}.")
    return str(game.possible_agents[0]) if seat is None else seat


def _classes(name: str, arguments: dict[str, Any], game: Any, seating: Seating) -> ClassesOfId:
    doc = inspect.getdoc(inspect.getmodule(type(game.unwrapped))) or ""
    return make_classes(
        PettingZooEnvironment,
        name,
        _space(name, "action", game.action_space, game, seating),
        _space(name, "observation", game.observation_space, game, seating),
        doc=doc,
        about=first_paragraph(doc) or f"PettingZoo's {name}.",
        arguments=arguments,
        seating=seating,
    )


def _space(name: str, kind: str, space_of: Any, game: Any, seating: Seating) -> Space[Any]:
    """Return the space of the seat that the client plays; where it plays all, theirs, which must be the same."""
    space: Space[Any] = space_of(seating.seat)
    if seating.opponent is None and any(space_of(agent) != space for agent in game.possible_agents):
        raise ConfigurationError(
            f"pettingzoo:{name} has seats with different {kind} spaces, so that no client can play them all; leave out "
            "opponents=none."
        )
    return space
