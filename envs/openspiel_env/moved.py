"""Games that have packages of their own now, under the names that they had in this one.

``openspiel_env.catch`` is ``catch_env``, module for module, so that its classes are the same under both names.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_HERE = __name__.rpartition(".")[0]
_BESIDE = _HERE.removesuffix("openspiel_env")  # "envs." in a checkout, else empty
_PACKAGES = {"blackjack": "blackjack_env", "catch": "catch_env", "game_2048": "game_2048_env"}


class MovedGames(MetaPathFinder, Loader):
    """Answers an import of ``openspiel_env.catch.models`` with the module ``catch_env.models`` itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Claim the modules of the games that moved."""
        parent, _, rest = fullname.partition(f"{_HERE}.")
        return ModuleSpec(fullname, self) if not parent and rest.partition(".")[0] in _PACKAGES else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the real module in the place of the empty one that the import system has made.

        Raises:
            ModuleNotFoundError: The game's package is not installed; the message says how to install it.
        """
        old = module.__name__
        game, dot, rest = old.removeprefix(f"{_HERE}.").partition(".")
        package = _BESIDE + _PACKAGES[game]
        try:
            sys.modules[old] = import_module(package + dot + rest)
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
            raise ModuleNotFoundError(
                f"{old} is now {package}{dot}{rest}, in a package of its own; install it: "
                f"pip install openenv-{_PACKAGES[game].replace('_', '-')}",
                name=package,
            ) from error
        warnings.warn(f"{old} is now {package}{dot}{rest}; please import from there.", DeprecationWarning, stacklevel=2)
