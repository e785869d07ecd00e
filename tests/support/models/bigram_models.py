"""Models that write what a table says: after each token, one of a few next ones."""

from collections.abc import Mapping, Sequence

import torch
from transformers import PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

_LOGIT = 20.0


def bigram_model(tokenizer: PreTrainedTokenizerBase, table: Mapping[str, Sequence[str]]) -> Qwen3ForCausalLM:
    """Make a model.

    Args:
        tokenizer: Its tokenizer.
        table: The tokens that may follow each token, all as likely; the end of the turn follows what is not in it.
    """
    size = len(tokenizer)
    width = (size + 15) // 16 * 16
    config = Qwen3Config(
        vocab_size=size,
        hidden_size=width,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    next_logits = torch.zeros(size, width)
    next_logits[tokenizer.eos_token_id, :] = _LOGIT / width**0.5
    for token, followers in table.items():
        number = tokenizer.convert_tokens_to_ids(token)
        next_logits[:, number] = 0
        for follower in followers:
            next_logits[tokenizer.convert_tokens_to_ids(follower), number] = _LOGIT / width**0.5
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(size, width))
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        model.lm_head.weight.copy_(next_logits)
    return model
