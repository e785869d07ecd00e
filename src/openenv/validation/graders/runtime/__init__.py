"""Graders of the runtime level."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.validation.graders.runtime.basic": (
            "ObservationSchemaGrader",
            "RewardWellFormedGrader",
            "StateContractGrader",
        ),
        "openenv.validation.graders.runtime.declared": ("TaskDeclarationGrader", "ToolDeclarationGrader"),
        "openenv.validation.graders.runtime.network": ("NetworkPolicyGrader",),
        "openenv.validation.graders.runtime.repeated": (
            "EpisodeDeterminismGrader",
            "EpisodeIsolationGrader",
            "SeedControlGrader",
        ),
    },
)
