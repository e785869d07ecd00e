"""The package's name before 0.2. Everything here is ``openenv.core`` under its old name."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import openenv.core

_OLD, _NEW = "openenv_core.", "openenv.core."
_OF_0_1 = {"http_env_client": "env_client"}

warnings.warn("openenv_core is now openenv.core; please import from there.", DeprecationWarning, stacklevel=2)


class _Renamed(MetaPathFinder, Loader):
    """Answers an import of ``openenv_core.x`` with the module ``openenv.core.x`` itself: classes stay the same."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Claim the modules below the old name."""
        return ModuleSpec(fullname, self) if fullname.startswith(_OLD) else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the real module in the place of the empty one that the import system has made."""
        name = module.__name__.removeprefix(_OLD)
        sys.modules[module.__name__] = import_module(f"{_NEW}{_OF_0_1.get(name, name)}")


sys.meta_path.insert(0, _Renamed())


def __getattr__(name: str) -> Any:
    if name == "HTTPEnvClient":  # of 0.1
        return import_module(f"{_NEW}env_client").HTTPEnvClient
    return getattr(openenv.core, name)
