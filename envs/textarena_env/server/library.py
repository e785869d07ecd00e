"""TextArena, imported so that its games need no network and share no randomness.

Nothing else of this package imports it. Its modules see stand-ins for ``nltk`` (the words of ``words``), for
``random`` and for numpy's global generator (those of ``chance``); every other module of the process sees the real ones.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

from .. import words as word_lists
from .chance import draw_from_episodes

_importing = RLock()
_given_chance: set[str] = set()


@cache
def registry() -> dict[str, Any]:
    """Return what TextArena knows of each game, by the game's id."""
    specs: dict[str, Any] = _import("textarena.envs.registration").ENV_REGISTRY
    return specs


@cache
def game_class(entry_point: str) -> type[Any]:
    """Import a game.

    Args:
        entry_point: Module and class, as in ``textarena.envs.Wordle.env:WordleEnv``.

    Returns:
        Its class.

    Raises:
        ImportError: It needs a package that is not installed.
    """
    module, _, name = entry_point.partition(":")
    found: type[Any] = getattr(_import(module), name)
    return found


@cache
def observation_wrapper() -> type[Any]:
    """Return the class of the wrappers that show a game's messages."""
    found: type[Any] = _import("textarena.core").ObservationWrapper
    return found


@cache
def message_kinds() -> Mapping[str, Any]:
    """Return TextArena's kinds of messages by their names."""
    kinds: Mapping[str, Any] = _import("textarena.core").ObservationType.__members__
    return kinds


def _import(name: str) -> ModuleType:
    with _importing:
        with _without_nltk():
            module = import_module(name)
        for imported in [name for name in sys.modules if name.partition(".")[0] == "textarena"]:
            if imported not in _given_chance:
                _given_chance.add(imported)
                _prepare(vars(sys.modules[imported]))
    return module


def _prepare(names: dict[str, Any]) -> None:
    draw_from_episodes(names)
    dictionary = names.get("EnglishDictionary")
    if dictionary is not None and dictionary.__module__ != names["__name__"]:
        names["EnglishDictionary"] = _shared_dictionary
    names["print"] = _print_nothing


def _shared_dictionary(**options: bool) -> Any:
    with _importing:  # or sessions that begin together would each make one
        return _dictionary(**options)


@cache
def _dictionary(**options: bool) -> Any:
    """Make a dictionary once: it is large, and no game changes it."""
    kind: type[Any] = _import("textarena.envs.utils.word_lists").EnglishDictionary
    made = type("SharedDictionary", (kind,), {"__deepcopy__": _itself})(**options)
    every_word = made.get_all_words()
    made.get_all_words = lambda: every_word
    return made


def _itself(shared: Any, memo: dict[int, Any]) -> Any:
    return shared


@contextmanager
def _without_nltk() -> Iterator[None]:
    stand_ins = _nltk()
    kept = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


@cache
def _nltk() -> dict[str, ModuleType]:
    nltk, corpus = ModuleType("nltk"), ModuleType("nltk.corpus")
    words = ModuleType("nltk.corpus.words")
    vars(words).update(words=word_lists.words)
    vars(corpus).update(words=words)
    vars(nltk).update(corpus=corpus, pos_tag=word_lists.pos_tag, download=_download_nothing)
    return {"nltk": nltk, "nltk.corpus": corpus}


def _download_nothing(*what: object, **how: object) -> bool:
    return True


def _print_nothing(*what: object, **how: object) -> None:
    """Stand in for ``print``: some games still print what their author looked at."""
