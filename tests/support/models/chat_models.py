"""Small chat models with random weights, saved to a folder as real ones are."""

from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As Qwen3's: earlier answers lose their reasoning, and without thinking an answer begins with an empty one.
THINKING = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
# Nothing but the end token between the turns.
TERSE = "{% for message in messages %}[{{ message.role }}] {{ message.content }}{{ eos_token }}{% endfor %}"
# Answers end with no token of their own.
ENDLESS = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n\n{% endfor %}assistant:"
# Shows only what the user says.
DEAF = "{% for message in messages %}{% if message.role == 'user' %}{{ message.content }}{% endif %}{% endfor %}"

CORPUS = [
    "user assistant left right stay ball paddle row the answer is left and the ball is right of the paddle",
    "You act in the environment. Answer with exactly one of these and nothing else: left, stay, right.",
    "number 0 1 2 3 4 5 6 7 8 9 10 total steps think illegal action expected one of got",
]


def chat_tokenizer(template: str | None = CHATML) -> PreTrainedTokenizerFast:
    """Make a byte-level BPE tokenizer, whose tokens do not survive being decoded and encoded again."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )


def letter_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """Make a tokenizer of single letters, whose tokens are the same after they were decoded and encoded again."""
    letters = [chr(number) for number in range(32, 127)] + ["\n", "\ufffd"]
    tokenizer = Tokenizer(models.WordLevel({letter: number for number, letter in enumerate(letters)}, "\ufffd"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )


def chat_model(tokenizer: PreTrainedTokenizerFast, layers: int = 2) -> Qwen3ForCausalLM:
    """Make a model for it. It says all kinds of things, and ends its turn now and then."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        model.model.norm.weight.mul_(5)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    return model


def save_chat_model(folder: Path, template: str | None = CHATML) -> str:
    """Save such a model; return its folder."""
    tokenizer = chat_tokenizer(template)
    tokenizer.save_pretrained(folder)
    chat_model(tokenizer).save_pretrained(folder)
    return str(folder)
