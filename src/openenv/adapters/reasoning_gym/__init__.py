"""reasoning-gym's datasets, to be served: a task is a question, a step its answer. ``environment_for("chain_sum")``.

Names are imported on first use (PEP 562): the models need no reasoning-gym, the rest imports it.
"""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.adapters.reasoning_gym.environment import ReasoningEnvironment as ReasoningEnvironment
    from openenv.adapters.reasoning_gym.factory import environment_for as environment_for
    from openenv.adapters.reasoning_gym.models import AnswerAction as AnswerAction
    from openenv.adapters.reasoning_gym.models import ReasoningObservation as ReasoningObservation
    from openenv.adapters.reasoning_gym.models import ReasoningState as ReasoningState
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.adapters.reasoning_gym.environment": ("ReasoningEnvironment",),
            "openenv.adapters.reasoning_gym.factory": ("environment_for",),
            "openenv.adapters.reasoning_gym.models": ("AnswerAction", "ReasoningObservation", "ReasoningState"),
        },
    )
