"""Sampling of tokens from a model's logits: the settings that trainers and vLLM share."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import torch
from transformers import LogitsProcessor, MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from openenv.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from trl.trainer.grpo_trainer import GRPOTrainer

__all__ = ["Sampling"]

# None of the cuts looks at the text.
_NO_TEXT: Any = None


@dataclass(frozen=True)
class Sampling:
    """Distribution that tokens are drawn from.

    Attributes:
        temperature: Divides the logits; 0 draws the most likely token.
        top_k: Draws only from so many of the most likely tokens; 0 for all.
        top_p: Draws only from the most likely tokens that together have this probability.
        min_p: Draws only from tokens with at least this share of the most likely token's probability.
        repetition_penalty: Makes tokens that the text has already less likely; 1 changes nothing.

    Example:
        >>> Sampling(temperature=0.7).with_changes({"top_p": 0.9, "min_p": None})
        Sampling(temperature=0.7, top_k=0, top_p=0.9, min_p=0.0, repetition_penalty=1.0)
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @classmethod
    def of(cls, trainer: "GRPOTrainer", changes: Mapping[str, Any] | None = None) -> Self:
        """Return a trainer's settings with changes; ``None`` for its ``generation_kwargs``.

        Raises:
            ConfigurationError: A setting is of another generator.
        """
        args: Any = trainer.args
        own = {setting.name: getattr(trainer, setting.name) for setting in fields(cls)}
        return cls().with_changes({**own, **((args.generation_kwargs if changes is None else changes) or {})})

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """Return these settings with changes by name; a value of ``None`` is the setting's default.

        Raises:
            ConfigurationError: There is no such setting.
        """
        defaults = {setting.name: setting.default for setting in fields(self)}
        unknown = sorted(set(changes) - set(defaults))
        if unknown:
            raise ConfigurationError(
                f"Expected settings of sampling ({', '.join(defaults)}), got {', '.join(unknown)}. "
                "Others are for vLLM: set use_vllm=True, or leave them out."
            )
        values: dict[str, Any] = {name: defaults[name] if value is None else value for name, value in changes.items()}
        return replace(self, **values)

    def logprobs(self, logits: torch.Tensor, seen: torch.Tensor | None = None) -> torch.Tensor:
        """Return the log-probabilities that tokens are drawn with; minus infinity for those that are never drawn.

        Args:
            logits: Logits of the next token, of shape (rows, vocabulary).
            seen: Mask of the tokens that each row's text has already, of the same shape, for a repetition penalty.
        """
        if seen is not None and self.repetition_penalty != 1:
            penalised = torch.where(logits < 0, logits * self.repetition_penalty, logits / self.repetition_penalty)
            logits = torch.where(seen, penalised, logits)
        if self.temperature == 0:
            return logits.log_softmax(dim=-1)
        scores = logits / self.temperature
        for cut in self._cuts():
            scores = cut(_NO_TEXT, scores)
        return scores.log_softmax(dim=-1)

    def _cuts(self) -> list[LogitsProcessor]:
        cuts: list[LogitsProcessor] = []
        if self.top_k:
            cuts.append(TopKLogitsWarper(self.top_k))
        if self.top_p < 1:
            cuts.append(TopPLogitsWarper(self.top_p))
        if self.min_p:
            cuts.append(MinPLogitsWarper(self.min_p))
        return cuts
