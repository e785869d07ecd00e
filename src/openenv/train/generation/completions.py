"""One answer for each prompt, for rollout functions written for TRL."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openenv.core.exceptions import ConfigurationError
from openenv.train.generation.trainers import max_context_of, tokenizer_of, trainer_generator

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase
    from trl.trainer.grpo_trainer import GRPOTrainer

__all__ = ["generate_rollout_completions"]

_Prompt = str | Sequence[Mapping[str, Any]]


def generate_rollout_completions(
    trainer: "GRPOTrainer",
    prompts: Sequence[_Prompt],
    *,
    generation_overrides: Mapping[str, Any] | None = None,
    as_chat: bool | None = None,
) -> list[dict[str, Any]]:
    """Generate answers of a trainer's model to prompts, with its settings of sampling.

    It works with transformers generation and with vLLM, in the trainer's process or on a server.

    Args:
        trainer: The trainer.
        prompts: Texts, tokenised as they are, or conversations, for which the chat template is applied.
        generation_overrides: Settings that win over the trainer's: ``max_tokens`` and those of `Sampling`; with vLLM,
            any of its ``SamplingParams`` but ``n``.
        as_chat: Whether a text is the user's message of a conversation; ``None`` leaves texts as they are.

    Returns:
        For each prompt ``prompt_ids``, ``completion_ids``, ``logprobs`` (one number for each token of the completion)
        and ``text``.

    Raises:
        ConfigurationError: A setting is of another generator, ``n`` is not 1, or a prompt leaves an answer no tokens.

    Example::

        def rollout_func(prompts, trainer):
            outputs = generate_rollout_completions(trainer, prompts)
            return {key: [output[key] for output in outputs] for key in ("prompt_ids", "completion_ids", "logprobs")}
    """
    if not prompts:
        return []
    args: Any = trainer.args
    changes = {**(args.generation_kwargs or {}), **(generation_overrides or {})}
    if changes.pop("n", 1) != 1:
        raise ConfigurationError("One completion is generated for each prompt: leave n out, and repeat the prompts.")
    longest = int(changes.pop("max_tokens", trainer.max_completion_length))
    tokenizer = tokenizer_of(trainer)
    prompt_ids = [_prompt_ids(prompt, tokenizer, trainer, as_chat) for prompt in prompts]
    max_context = max_context_of(trainer)
    limits = [min(longest, max_context - len(ids)) for ids in prompt_ids]
    if min(limits) < 1:
        raise ConfigurationError(
            f"A prompt has {max(map(len, prompt_ids))} tokens, and the model takes {max_context} with the "
            "answer: shorten the prompts."
        )
    with trainer_generator(trainer, changes) as generator:
        generator.feed(prompt_ids)
        completions = generator.generate(limits, frozenset(trainer.eos_token_ids))
    return [
        {
            "prompt_ids": ids,
            "completion_ids": completion.token_ids,
            "logprobs": completion.logprobs,
            "text": str(tokenizer.decode(completion.token_ids, skip_special_tokens=True)),
        }
        for ids, completion in zip(prompt_ids, completions, strict=True)
    ]


def _prompt_ids(
    prompt: _Prompt, tokenizer: "PreTrainedTokenizerBase", trainer: "GRPOTrainer", as_chat: bool | None
) -> list[int]:
    if isinstance(prompt, str) and not as_chat:
        # A rendered conversation begins with the token of the beginning already.
        begun = tokenizer.bos_token is not None and prompt.startswith(str(tokenizer.bos_token))
        return list(tokenizer.encode(prompt, add_special_tokens=not begun))
    messages: Any = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    settings: Any = trainer.chat_template_kwargs
    ids: Any = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=False, **settings
    )
    return list(ids)
