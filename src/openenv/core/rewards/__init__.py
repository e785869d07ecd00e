"""Rewards from elsewhere as rubrics: functions, scorers, models, endpoints and tests that other libraries define."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.rewards.commands import CommandReward as CommandReward
    from openenv.core.rewards.endpoints import EndpointReward as EndpointReward
    from openenv.core.rewards.functions import FunctionReward as FunctionReward
    from openenv.core.rewards.inspect_scorers import InspectReward as InspectReward
    from openenv.core.rewards.reward_models import ModelReward as ModelReward
    from openenv.core.rewards.samples import Sample as Sample
    from openenv.core.rewards.samples import sample_of as sample_of
    from openenv.core.rewards.verifiers_rubrics import VerifiersEpisodeReward as VerifiersEpisodeReward
    from openenv.core.rewards.verifiers_rubrics import VerifiersGroupReward as VerifiersGroupReward
    from openenv.core.rewards.verifiers_rubrics import VerifiersReward as VerifiersReward
else:
    _PACKAGE = "openenv.core.rewards"

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            f"{_PACKAGE}.commands": ("CommandReward",),
            f"{_PACKAGE}.endpoints": ("EndpointReward",),
            f"{_PACKAGE}.functions": ("FunctionReward",),
            f"{_PACKAGE}.inspect_scorers": ("InspectReward",),
            f"{_PACKAGE}.reward_models": ("ModelReward",),
            f"{_PACKAGE}.samples": ("Sample", "sample_of"),
            f"{_PACKAGE}.verifiers_rubrics": ("VerifiersEpisodeReward", "VerifiersGroupReward", "VerifiersReward"),
        },
    )
