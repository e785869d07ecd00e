"""Generation for rollouts, with transformers or vLLM, by the trainer's settings."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.train.generation.completions import generate_rollout_completions as generate_rollout_completions
    from openenv.train.generation.generator import Completion as Completion
    from openenv.train.generation.generator import Generator as Generator
    from openenv.train.generation.sampling import Sampling as Sampling
    from openenv.train.generation.trainers import trainer_generator as trainer_generator
    from openenv.train.generation.transformers_generator import TransformersGenerator as TransformersGenerator
    from openenv.train.generation.vllm_generator import VllmGenerator as VllmGenerator
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.train.generation.completions": ("generate_rollout_completions",),
            "openenv.train.generation.generator": ("Completion", "Generator"),
            "openenv.train.generation.sampling": ("Sampling",),
            "openenv.train.generation.trainers": ("trainer_generator",),
            "openenv.train.generation.transformers_generator": ("TransformersGenerator",),
            "openenv.train.generation.vllm_generator": ("VllmGenerator",),
        },
    )
