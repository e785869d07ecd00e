"""reasoning-gym's datasets, to be served: a task is a question, a step its answer. ``environment_for("chain_sum")``."""

try:
    import reasoning_gym as _reasoning_gym  # noqa: F401  # said here once, in place of a traceback from the depths
except ImportError as error:
    raise ImportError('This needs reasoning-gym: pip install "openenv-core[reasoning-gym]"') from error

from openenv.adapters.reasoning_gym.environment import (
    AnswerAction,
    ReasoningEnvironment,
    ReasoningObservation,
    ReasoningState,
)
from openenv.adapters.reasoning_gym.made import environment_for

__all__ = ["AnswerAction", "ReasoningEnvironment", "ReasoningObservation", "ReasoningState", "environment_for"]
