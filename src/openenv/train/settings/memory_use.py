"""Memory of a training by the sizes of its model: an estimate from measurements, with a margin."""

from collections.abc import Mapping
from typing import Any

from openenv.train.settings.config import TrainConfig

__all__ = ["SIZES", "learned_weights", "model_sizes", "state_bytes", "training_bytes"]

SIZES = (
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
"""Factor for trainings that need more than the sum below, as some that were measured do by a tenth."""

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


def model_sizes(content: Mapping[str, Any], parameters: int | None) -> dict[str, int] | None:
    """Return the sizes of a model by which its memory is estimated; ``None`` where its configuration lacks some.

    Args:
        content: Content of its ``config.json``.
        parameters: Number of its weights; ``None`` to estimate it.

    Returns:
        ``parameters``; ``hidden`` and ``inner``, the numbers that stand for a token between layers and in the
        feed-forward part of one; ``layers``; ``vocabulary``, the tokens that it knows; and ``cached``, the numbers that
        a layer keeps of a token while the model writes.
    """
    content = content.get("text_config") or content
    hidden, layers, vocabulary = (content.get(name) for name in ("hidden_size", "num_hidden_layers", "vocab_size"))
    if not hidden or not layers or not vocabulary:
        return None
    inner = content.get("intermediate_size") or 4 * hidden
    heads = content.get("num_attention_heads") or 1
    width = content.get("head_dim") or hidden // heads
    cached = 2 * width * (content.get("num_key_value_heads") or heads)
    matrices = layers * hidden * (2 * heads * width + cached + 3 * inner)
    return {
        "parameters": parameters or matrices + 2 * vocabulary * hidden,
        "hidden": hidden,
        "layers": layers,
        "inner": inner,
        "vocabulary": vocabulary,
        "cached": cached,
    }


def learned_weights(config: TrainConfig, parameters: int) -> int:
    """Return how many of a model's weights a run learns: all, or additions."""
    return parameters if config.lora is None else round(parameters * _ADDITIONS_SHARE * config.lora.rank / 16)


def state_bytes(config: TrainConfig, parameters: int) -> int:
    """Return the bytes of a run without those of episodes: the program, weights, gradients and averages of AdamW."""
    models = 2 if config.beta and config.lora is None else 1  # the model at the start, too
    learned = learned_weights(config, parameters)
    weight = _FLOAT // 2 if config.dtype == "bfloat16" else _FLOAT
    return _PROGRAM_BYTES + weight * models * parameters + _FLOAT * _LEARNED_FLOATS * learned


def training_bytes(config: TrainConfig, sizes: Mapping[str, int], episodes: int, *, checkpointing: bool) -> int:
    """Return the bytes of a run at most, with a margin: where every episode is as long as ``max_context`` allows.

    Args:
        config: The run's settings.
        sizes: The model's, as `model_sizes` returns them.
        episodes: Episodes in one backward pass.
        checkpointing: Whether activations are computed twice, so that of a layer only its input is kept.
    """
    of_layer = _OF_HIDDEN * sizes["hidden"] + _OF_INNER * sizes["inner"]
    kept = sizes["layers"] * sizes["hidden"] + of_layer if checkpointing else sizes["layers"] * of_layer
    tokens = episodes * config.max_context
    logits = _OF_LOGITS * min(sizes["vocabulary"], _WORDS_AT_ONCE) * min(tokens, _TOKENS_AT_ONCE)
    # Nothing is learned while the model writes, and another program keeps what vLLM writes.
    written = 0 if config.vllm else config.rollouts * config.max_context * sizes["layers"] * sizes["cached"]
    most = max(tokens * kept + logits, written)
    return round(MARGIN * (state_bytes(config, sizes["parameters"]) + _FLOAT * most))
