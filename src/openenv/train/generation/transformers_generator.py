"""Sampling from a language model for many episodes at once, with the key-value cache kept between turns."""

from collections.abc import Container, Sequence
from inspect import signature
from random import Random
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from openenv.train.generation.generator import Completion
from openenv.train.generation.sampling import Sampling

__all__ = ["TransformersGenerator"]


class TransformersGenerator:
    """Generator with a causal language model in this process, which computes no token twice.

    Args:
        model: A causal language model of ``transformers``, with a cache that grows (`DynamicCache`).
        pad_id: A token to pad shorter rows with on the left; it is masked out for good.
        sampling: The distribution that tokens are drawn from.
        randomness: Source of the draws: for all rows one on the model's device; or one for each row, whose draws are
            then the same whatever other rows there are; ``None`` for torch's own.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        pad_id: int,
        sampling: Sampling,
        randomness: torch.Generator | Sequence[Random] | None = None,
    ) -> None:
        self._model = model
        self._pad_id = pad_id
        self._sampling = sampling
        self._randomness = randomness
        self._cache = DynamicCache(config=model.config)
        self._cache_name = _cache_name(model)
        self._mask = torch.zeros((0, 0), dtype=torch.long, device=model.device)
        self._logits = torch.zeros((0, 0), device=model.device)
        # Mask of the vocabulary's tokens that each row has; only where repetition is penalised.
        self._seen: torch.Tensor | None = None

    @torch.inference_mode()
    def feed(self, rows: Sequence[Sequence[int]]) -> None:
        """Append the new tokens of each row to it, none to some, but not in the first feed."""
        ids, mask = self._padded(rows)
        if not self._mask.numel():
            self._mask = self._mask.new_zeros((len(rows), 0))
        before = self._mask.sum(dim=1, keepdim=True)
        self._mask = torch.cat([self._mask, mask], dim=1)
        output: Any = self._model(
            input_ids=ids,
            attention_mask=self._mask,
            # Padding gets position 0 or less, which is never attended to.
            position_ids=(before + mask.cumsum(dim=1) - 1).clamp(min=0),
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self._cache},
        )
        logits = output.logits[:, -1].float()
        fed = mask[:, -1:].bool()
        self._logits = logits if self._logits.numel() == 0 else torch.where(fed, logits, self._logits)
        if self._sampling.repetition_penalty != 1:
            self._note_seen(ids, mask)

    @torch.inference_mode()
    def sample(self, writing: Container[int] | None = None) -> tuple[list[int], list[float]]:
        """Draw the next token of every row, not fed yet, with its log-probability.

        Args:
            writing: The rows whose tokens are wanted; no number is drawn from the others' sources. ``None`` for all.
        """
        logprobs = self._sampling.logprobs(self._logits, self._seen)
        if self._sampling.temperature == 0:
            tokens = logprobs.argmax(dim=-1, keepdim=True)
        else:
            tokens = self._drawn(logprobs.exp(), writing)
        return tokens.squeeze(1).tolist(), logprobs.gather(1, tokens).squeeze(1).tolist()

    def generate(self, limits: Sequence[int], stop_ids: frozenset[int]) -> list[Completion]:
        """Return a completion for each row, of 1 to ``limits`` tokens; its last token belongs to the next `feed`."""
        completions = [Completion() for _ in limits]
        writing = list(range(len(limits)))
        while True:
            tokens, logprobs = self.sample(set(writing))
            for row in writing:
                completions[row].token_ids.append(tokens[row])
                completions[row].logprobs.append(logprobs[row])
                completions[row].ended = tokens[row] in stop_ids
            writing = [
                row for row in writing if not completions[row].ended and len(completions[row].token_ids) < limits[row]
            ]
            if not writing:
                return completions
            still = set(writing)
            self.feed([[tokens[row]] if row in still else [] for row in range(len(limits))])

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these; the rows are renumbered in the order given."""
        index = torch.tensor(rows, dtype=torch.long, device=self._mask.device)
        self._cache.batch_select_indices(index)
        self._mask = self._mask[index]
        self._logits = self._logits[index]
        self._seen = None if self._seen is None else self._seen[index]
        if isinstance(self._randomness, Sequence):
            self._randomness = [self._randomness[row] for row in rows]

    def _drawn(self, probabilities: torch.Tensor, writing: Container[int] | None) -> torch.Tensor:
        randomness = self._randomness
        if not isinstance(randomness, Sequence):
            return torch.multinomial(probabilities, 1, generator=randomness)
        wanted = range(len(randomness)) if writing is None else writing
        draws = [own.random() if row in wanted else 0.5 for row, own in enumerate(randomness)]
        cumulated = probabilities.double().cumsum(dim=-1)
        heights = torch.tensor(draws, dtype=torch.double, device=cumulated.device).unsqueeze(1) * cumulated[:, -1:]
        return torch.searchsorted(cumulated, heights, right=True).clamp(max=cumulated.shape[1] - 1)

    def _note_seen(self, ids: torch.Tensor, mask: torch.Tensor) -> None:
        if self._seen is None:
            self._seen = torch.zeros_like(self._logits, dtype=torch.bool)
        fed = torch.zeros_like(self._seen, dtype=mask.dtype).scatter_add(1, ids, mask)
        self._seen |= fed > 0

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(map(len, rows))
        ids = torch.tensor([[self._pad_id] * (width - len(row)) + list(row) for row in rows], device=self._model.device)
        if all(len(row) == width for row in rows):
            return ids, torch.ones_like(ids)
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        return ids, torch.tensor(mask, device=ids.device)


def _cache_name(model: torch.nn.Module) -> str:
    """Return the name of a model's argument for its cache, also of a wrapped one; transformers 5.24 has renamed it."""
    model = next((module for module in model.modules() if isinstance(module, PreTrainedModel)), model)
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"
