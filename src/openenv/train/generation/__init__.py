"""Generation for rollouts: what a model writes, with transformers or vLLM, as the trainer is set up."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.train.generation.answers import Answer as Answer
    from openenv.train.generation.answers import Writer as Writer
    from openenv.train.generation.backends import Backend as Backend
    from openenv.train.generation.backends import TransformersBackend as TransformersBackend
    from openenv.train.generation.backends import VllmBackend as VllmBackend
    from openenv.train.generation.backends import backend_of as backend_of
    from openenv.train.generation.completions import generate_rollout_completions as generate_rollout_completions
    from openenv.train.generation.decoder import Decoder as Decoder
    from openenv.train.generation.sampling import Sampling as Sampling
    from openenv.train.generation.vllm_writer import VllmWriter as VllmWriter
else:
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
