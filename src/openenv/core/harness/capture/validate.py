"""Findings in captured turns: what keeps them from being trained on, and what is worth knowing."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FATAL, WARN, INFO = "FATAL", "WARN", "INFO"


@dataclass(frozen=True)
class Finding:
    """Fault or peculiarity of a captured turn.

    Attributes:
        level: ``FATAL`` where the turn can't be trained on, ``WARN`` or ``INFO``.
        code: Its kind, for programs.
        detail: What was expected and what came.

    Example:
        >>> str(Finding(FATAL, "no_prompt_ids", "the prompt has no tokens"))
        '[FATAL] no_prompt_ids: the prompt has no tokens'
    """

    level: str
    code: str
    detail: str

    def __str__(self) -> str:
        return f"[{self.level}] {self.code}: {self.detail}"


def validate_training_turn(
    prompt_token_ids: Sequence[int],
    completion_token_ids: Sequence[int],
    per_token_logps: Sequence[float],
    loss_mask: Sequence[int],
) -> list[Finding]:
    """Find what keeps a turn from being trained on.

    Args:
        prompt_token_ids: Tokens that the engine read.
        completion_token_ids: Tokens that it sampled.
        per_token_logps: Log-probability of each sampled token.
        loss_mask: 1 for each token to be trained on, else 0, over prompt and completion.

    Returns:
        The faults; none for a turn that can be trained on.

    Example:
        >>> [finding.code for finding in validate_training_turn([1, 2], [3], [-0.2], [0, 1, 1])]
        ['trainable_prompt']
    """
    found = [
        *_faults_of_tokens(prompt_token_ids, completion_token_ids),
        *_faults_of_logps(completion_token_ids, per_token_logps),
        *_faults_of_mask(len(prompt_token_ids), len(completion_token_ids), loss_mask),
    ]
    return [Finding(FATAL, code, detail) for code, detail in found]


def _faults_of_tokens(prompt: Sequence[int], completion: Sequence[int]) -> Iterator[tuple[str, str]]:
    if not prompt:
        yield "no_prompt_ids", "expected the tokens that the engine read, got none"
    wrong = next((token for token in (*prompt, *completion) if token < 0), None)
    if wrong is not None:
        yield "invalid_token_id", f"expected tokens from 0 on, got {wrong}"


def _faults_of_logps(completion: Sequence[int], logps: Sequence[float]) -> Iterator[tuple[str, str]]:
    if completion and not logps:
        yield "no_logprobs", f"expected a log-probability for each of {len(completion)} sampled tokens, got none"
    elif len(completion) != len(logps):
        yield "logprob_misalign", f"expected {len(completion)} log-probabilities, got {len(logps)}"
    infinite = next((each for each in logps if not math.isfinite(each)), None)
    if infinite is not None:
        yield "invalid_logprob", f"expected finite log-probabilities, got {infinite}"
    positive = next((each for each in logps if math.isfinite(each) and each > 0), None)
    if positive is not None:
        yield "positive_logprob", f"expected log-probabilities of at most 0, got {positive}"


def _faults_of_mask(prompt: int, completion: int, mask: Sequence[int]) -> Iterator[tuple[str, str]]:
    if len(mask) != prompt + completion:
        yield (
            "length_mismatch",
            f"expected entries for {prompt} tokens of the prompt and {completion} sampled ones, got {len(mask)}",
        )
    wrong = next((each for each in mask if each not in (0, 1)), None)
    if wrong is not None:
        yield "invalid_loss_mask", f"expected 0 or 1, got {wrong}"
    if any(mask[:prompt]):
        yield "trainable_prompt", "expected 0 for each token of the prompt, which the policy did not sample"
