"""Built-in tiny policy: a word-level tokenizer and a small Qwen3 model with random weights.

Both are made for one environment: the vocabulary is the words of its observations and actions. They are
ordinary ``transformers`` objects, so a checkpoint loads with ``AutoTokenizer`` and ``AutoModelForCausalLM``.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

__all__ = ["build_model", "build_tokenizer", "words_of"]

PAD, END, UNKNOWN = "<pad>", "<end>", "<unknown>"
HEAD_SIZE = 16
MAX_POSITIONS = 32768

# One token is a run of letters, one digit, or one other character that is not white space.
_WORD_PATTERN = r"[^\W\d]+|\d|[^\w\s]"


def build_tokenizer(choices: Sequence[str], texts: Iterable[str]) -> "PreTrainedTokenizerFast":
    """Make a tokenizer whose vocabulary is the words of an environment.

    Args:
        choices: The texts of the actions where there is a finite number; each becomes one token.
        texts: Observations and other text whose words the policy should know.

    Returns:
        A tokenizer that splits at words, digits and symbols and joins tokens with spaces.

    Example:
        >>> tokenizer = build_tokenizer(["left", "right"], ["ball 12"])
        >>> tokenizer.tokenize("right ball 21")
        ['right', 'ball', '2', '1']
    """
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = [PAD, END, UNKNOWN, *"0123456789"]
    vocabulary += words_of([*choices, *texts], known=vocabulary)
    model = models.WordLevel({word: number for number, word in enumerate(vocabulary)}, unk_token=UNKNOWN)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD_PATTERN), behavior="removed", invert=True)
    # A choice such as "turn left" or "12" is one token too, so that every action is.
    long_choices = [choice for choice in choices if choice not in vocabulary]
    tokenizer.add_tokens([AddedToken(choice, single_word=True, normalized=False) for choice in long_choices])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        model_max_length=MAX_POSITIONS,
    )


def words_of(texts: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Return the words of texts but for known ones, as the tiny policy's tokenizer splits them, each at its first use.

    Example:
        >>> words_of(["a ball, a bat", "ball 7"], known=["7"])
        ['a', 'ball', ',', 'bat']
    """
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(_WORD_PATTERN), behavior="removed", invert=True)
    seen = dict.fromkeys(known)
    skipped = len(seen)
    for text in texts:
        seen.update(dict.fromkeys(word for word, _ in split.pre_tokenize_str(text)))
    return list(seen)[skipped:]


def build_model(
    tokenizer: "PreTrainedTokenizerFast",
    *,
    hidden: int = 32,
    layers: int = 1,
    seed: int = 1,
    initializer_range: float = 0.02,
) -> "Qwen3ForCausalLM":
    """Make a Qwen3 model with random weights for a tokenizer.

    Args:
        tokenizer: Gives the size of the vocabulary and the special tokens.
        hidden: Width, a multiple of 16; the feed-forward layers are twice as wide.
        layers: Number of layers.
        seed: Seed of the weights.
        initializer_range: Standard deviation of the weights. 0.05 learns tool calls far better than Qwen3's own 0.02.

    Returns:
        The model on the CPU, in float32. With the defaults it has about 10,000 parameters.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD_SIZE,
        num_key_value_heads=hidden // HEAD_SIZE,
        head_dim=HEAD_SIZE,
        max_position_embeddings=MAX_POSITIONS,
        initializer_range=initializer_range,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)
