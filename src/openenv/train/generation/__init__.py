"""Generation for rollouts: what a model writes, with transformers or vLLM, as the trainer is set up."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.train.generation.answers": ("Answer", "Writer"),
        "openenv.train.generation.backends": ("Backend", "TransformersBackend", "VllmBackend", "backend_of"),
        "openenv.train.generation.completions": ("generate_rollout_completions",),
        "openenv.train.generation.decoder": ("Decoder",),
        "openenv.train.generation.sampling": ("Sampling",),
        "openenv.train.generation.vllm_writer": ("VllmWriter",),
    },
)
