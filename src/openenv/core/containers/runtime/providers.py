"""Public import path of the providers; they live in ``openenv.core.providers``."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports
from openenv.core import providers

if TYPE_CHECKING:
    from openenv.core.providers import *  # noqa: F403  # its names are listed there
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, {"openenv.core.providers": tuple(providers.__all__)})
