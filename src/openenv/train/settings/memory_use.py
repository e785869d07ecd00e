"""Memory of a training by the sizes of its model: an estimate from measurements, with a margin."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from openenv.train.settings.config import TrainConfig

__all__ = ["SHAPE", "ModelShape", "learned_weights", "state_bytes", "training_bytes"]

SHAPE = (
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "vocab_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
)
"""Names of a model's sizes in its ``config.json``."""

MARGIN = 1.2
"""What was measured is up to a tenth more than the sum below."""

_FLOAT = 4
# Measured with one thread of torch, TRL 1.16 and SmolLM2, peak of the second optimiser step: Python with its
# libraries, and memory that is not given back.
_PROGRAM_BYTES = 700_000_000
# Numbers that a layer keeps of a token for its backward pass, by its width and by that of its feed-forward part.
_OF_HIDDEN, _OF_INNER = 12, 3
# Numbers for each word of the vocabulary and each token; TRL computes logits of so many words and tokens at once.
_OF_LOGITS, _WORDS_AT_ONCE, _TOKENS_AT_ONCE = 8, 32_768, 4_096
# Gradient and two averages of AdamW.
_LEARNED_FLOATS = 3
# Share of a model's weights that additions of rank 16 to all of its matrices have, of small models.
_ADDITIONS_SHARE = 0.04


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a language model, by which its memory in a training is estimated.

    Attributes:
        parameters: Number of its weights.
        hidden: Numbers that stand for a token between layers.
        layers: Number of layers.
        inner: Numbers that stand for a token in the feed-forward part of a layer.
        vocabulary: Number of tokens that it knows.
        cached: Numbers that a layer keeps of a token while the model writes.
    """

    parameters: int
    hidden: int
    layers: int
    inner: int
    vocabulary: int
    cached: int

    @classmethod
    def of(cls, sizes: Mapping[str, Any], parameters: int | None) -> Self | None:
        """Read the sizes in the content of a ``config.json``; ``None`` where it lacks some.

        Args:
            sizes: The content.
            parameters: Number of the weights; ``None`` to estimate it.
        """
        sizes = sizes.get("text_config") or sizes
        hidden, layers, vocabulary = (sizes.get(name) for name in ("hidden_size", "num_hidden_layers", "vocab_size"))
        if not hidden or not layers or not vocabulary:
            return None
        inner = sizes.get("intermediate_size") or 4 * hidden
        heads = sizes.get("num_attention_heads") or 1
        width = sizes.get("head_dim") or hidden // heads
        cached = 2 * width * (sizes.get("num_key_value_heads") or heads)
        matrices = layers * hidden * (2 * heads * width + cached + 3 * inner)
        return cls(parameters or matrices + 2 * vocabulary * hidden, hidden, layers, inner, vocabulary, cached)


def learned_weights(config: TrainConfig, parameters: int) -> int:
    """Return how many of a model's weights a run learns: all, or additions."""
    return parameters if config.lora is None else round(parameters * _ADDITIONS_SHARE * config.lora.rank / 16)


def state_bytes(config: TrainConfig, parameters: int) -> int:
    """Return the bytes of a run without those of episodes: the program, weights, gradients and averages of AdamW."""
    models = 2 if config.beta and config.lora is None else 1  # the model at the start, too
    learned = learned_weights(config, parameters)
    return _PROGRAM_BYTES + _FLOAT * (models * parameters + _LEARNED_FLOATS * learned)


def training_bytes(config: TrainConfig, shape: ModelShape, episodes: int, *, checkpointing: bool) -> int:
    """Return the bytes of a run at most, with a margin: where every episode is as long as ``max_context`` allows.

    Args:
        config: The run's settings.
        shape: The model's sizes.
        episodes: Episodes in one backward pass.
        checkpointing: Whether activations are computed twice, so that of a layer only its input is kept.
    """
    of_layer = _OF_HIDDEN * shape.hidden + _OF_INNER * shape.inner
    kept = shape.layers * shape.hidden + of_layer if checkpointing else shape.layers * of_layer
    tokens = episodes * config.max_context
    logits = _OF_LOGITS * min(shape.vocabulary, _WORDS_AT_ONCE) * min(tokens, _TOKENS_AT_ONCE)
    # Nothing is learned while the model writes, and another program keeps what vLLM writes.
    written = 0 if config.vllm else config.rollouts * config.max_context * shape.layers * shape.cached
    most = max(tokens * kept + logits, written)
    return round(MARGIN * (state_bytes(config, shape.parameters) + _FLOAT * most))
