"""Generator with vLLM through TRL's own `VLLMGeneration`: token ids in, token ids and log-probabilities out.

The whole text is sent again in each turn; vLLM's prefix cache keeps that cheap.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from openenv.core.exceptions import OpenEnvError
from openenv.train.generation.generator import Completion

if TYPE_CHECKING:
    from trl.generation.vllm_generation import VLLMGeneration

__all__ = ["VllmGenerator"]

# Settings that the generator itself sets in each turn.
_OWN = frozenset({"logprobs", "max_tokens", "n"})


class VllmGenerator:
    """Generator with a trainer's vLLM, with ``SamplingParams`` in settings instead of its ``generation_kwargs``."""

    def __init__(self, vllm: "VLLMGeneration", settings: Mapping[str, Any] | None = None) -> None:
        self._vllm = vllm
        given = vllm.generation_kwargs if settings is None else settings
        self._settings = {name: value for name, value in (given or {}).items() if name not in _OWN}
        self._texts: list[list[int]] = []

    def feed(self, rows: Sequence[Sequence[int]]) -> None:
        """Append the new tokens of each row to it."""
        if not self._texts:
            self._texts = [[] for _ in rows]
        for text, new in zip(self._texts, rows, strict=True):
            text.extend(new)

    def generate(self, limits: Sequence[int], stop_ids: frozenset[int]) -> list[Completion]:
        """Return a completion for each row, of 1 to ``limits`` tokens; its last token belongs to the next `feed`.

        Raises:
            OpenEnvError: vLLM wrote nothing, or gave no log-probabilities.
        """
        completions = [Completion() for _ in limits]
        writing = list(range(len(limits)))
        while writing:
            # vLLM has one limit for all: rows with a higher one continue in another round.
            limit = min(limits[row] - len(completions[row].token_ids) for row in writing)
            texts = [self._texts[row] + completions[row].token_ids for row in writing]
            for row, (token_ids, logprobs) in zip(writing, self._written(texts, limit, stop_ids), strict=True):
                completions[row].token_ids += token_ids
                completions[row].logprobs += logprobs
                completions[row].ended = token_ids[-1] in stop_ids or len(token_ids) < limit
            writing = [
                row for row in writing if not completions[row].ended and len(completions[row].token_ids) < limits[row]
            ]
        for text, completion in zip(self._texts, completions, strict=True):
            text.extend(completion.token_ids[:-1])
        return completions

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these; the rows are renumbered in the order given."""
        self._texts = [self._texts[row] for row in rows]

    def _written(
        self, texts: list[list[int]], limit: int, stop_ids: frozenset[int]
    ) -> Iterator[tuple[list[int], list[float]]]:
        """Yield the new tokens of each text, up to the first that ends it, with their log-probabilities."""
        settings = dict(self._settings)
        if stop_ids:
            settings["stop_token_ids"] = sorted({*settings.get("stop_token_ids", ()), *stop_ids})
        with _changed(self._vllm, max_completion_length=limit, generation_kwargs=settings):
            _, written, logprobs, logprob_ids = self._vllm.generate(prompts=texts, images=None, num_generations=1)
        if logprobs is None:
            raise OpenEnvError("vLLM gave no log-probabilities of its tokens; the request must name them.")
        for text, token_ids, row_logprobs, row_ids in zip(texts, written, logprobs, logprob_ids, strict=True):
            if not token_ids:
                raise OpenEnvError(f"vLLM wrote nothing after a text of {len(text)} tokens; is its context too small?")
            count = _completion_length(token_ids, stop_ids)
            # There may be more than the drawn token's: those of the most likely ones, in the order of their ranks.
            drawn = zip(token_ids[:count], row_logprobs, row_ids, strict=False)
            yield list(token_ids[:count]), [some[ids.index(token)] for token, some, ids in drawn]


def _completion_length(token_ids: Sequence[int], stop_ids: frozenset[int]) -> int:
    for number, token in enumerate(token_ids, start=1):
        if token in stop_ids:
            return number
    return len(token_ids)


@contextmanager
def _changed(vllm: "VLLMGeneration", **settings: Any) -> Iterator[None]:
    before = {name: getattr(vllm, name) for name in settings}
    for name, value in settings.items():
        setattr(vllm, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(vllm, name, value)
