"""Names that TRL once had, for scripts written then: import this module before they are imported.

``from trl.experimental.openenv import generate_rollout_completions`` works after ``import openenv.train.compat``. It is
``openenv.train.generation.generate_rollout_completions``. A TRL that still has the name keeps its own.
"""

import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from openenv.train.generation.completions import generate_rollout_completions

__all__ = ["generate_rollout_completions"]

NAME = "trl.experimental.openenv"

with warnings.catch_warnings():
    # It warns that its parts may change; this one has.
    warnings.simplefilter("ignore")
    _experimental = import_module("trl.experimental")

if NAME not in sys.modules and find_spec(NAME) is None:
    _module = ModuleType(NAME, __doc__)
    vars(_module).update(generate_rollout_completions=generate_rollout_completions, __all__=__all__)
    sys.modules[NAME] = _module
    vars(_experimental)["openenv"] = _module
