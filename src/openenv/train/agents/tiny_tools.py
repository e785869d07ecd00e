"""Tokenizer of the tiny policy for tool calls: one token for each piece that the chat template writes.

A pretrained model spells a tool call in dozens of tokens. Here the call of a tool with one argument is five: the call's
opening with the tool's name, the argument's name, its value, the closing, and the end of the turn. So a model of some
hundred thousand parameters learns to call tools in minutes on a CPU, and TRL's trainers treat it as any model that
calls tools.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["RESPONSE_TEMPLATE", "TOOL_CHAT_TEMPLATE", "build_tool_tokenizer"]

PAD, UNKNOWN, END_OF_TURN = "<|endoftext|>", "<|unknown|>", "<|im_end|>"
ROLES = ("system", "user", "assistant", "tool")

# A token is one digit, or a run of anything else up to the next white space; the white space before it belongs to it.
_WORD_PATTERN = r"\s?\d|\s?[^\s\d]+|\s"

# Its way of writing is Qwen3's, cut short: a tool's result is a turn of its own, tools are shown by their names and
# parameters, and no line ends stand between turns.
TOOL_CHAT_TEMPLATE = """\
{%- macro text_of(content) -%}
    {%- if content is string -%}{{- content -}}
    {%- elif content -%}{%- for block in content -%}{{- block.text -}}{%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- set opening = messages[0] if messages[0].role == 'system' -%}
{%- if opening or tools -%}
    {{- '<|im_start|>system\\n' -}}
    {%- if opening -%}{{- text_of(opening.content) -}}{%- endif -%}
    {%- for tool in tools or [] -%}
        {%- set function = tool.function or tool -%}
        {{- '\\n# ' + function.name + '(' + ((function.parameters or {}).properties or {}) | join(', ') + ')' -}}
    {%- endfor -%}
    {{- '<|im_end|>' -}}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {{- '<|im_start|>assistant\\n' -}}
        {%- generation -%}
            {{- text_of(message.content) -}}
            {%- for call in message.tool_calls or [] -%}
                {%- set function = call.function or call -%}
                {%- set arguments = function.arguments -%}
                {{- '<tool_call>\\n{"name": "' + function.name + '", "arguments": ' -}}
                {{- arguments if arguments is string else arguments | tojson -}}
                {{- '}\\n</tool_call>' -}}
            {%- endfor -%}
            {{- '<|im_end|>' -}}
        {%- endgeneration -%}
    {%- elif not (loop.first and opening) -%}
        {{- '<|im_start|>' + message.role + '\\n' + text_of(message.content) + '<|im_end|>' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

# Read strictly: an answer is one whole call and nothing else, or it is text. A reader that lets half a call pass lets
# the policy drift to answers that no template would write.
RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open_pattern": r"\A<tool_call>\n(?=(?:(?!</?tool_call>).)*\n</tool_call><\|im_end\|>\Z)",
            "close_pattern": r"\n</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>", "content": "text"},
    },
}


def build_tool_tokenizer(
    tools: Sequence[Mapping[str, Any]], texts: Iterable[str], values: Iterable[Any] = ()
) -> "PreTrainedTokenizerFast":
    r"""Make a tokenizer whose vocabulary is the tool calls and the words of an environment.

    What it knows it reads and writes without loss, so that a call that the model writes is read back as JSON. The
    chat template and the response template are set; TRL and ``parse_response`` need no more.

    Args:
        tools: The tools' schemas, as chat templates take them.
        texts: Prompts, observations and other text whose words the policy should know.
        values: Arguments that become one token each, whatever is in them. Those that a schema lists need not be named.

    Returns:
        The tokenizer.

    Example:
        >>> guess = {"name": "guess", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}
        >>> tokenizer = build_tool_tokenizer([{"type": "function", "function": guess}], ["No."], values=["mouse"])
        >>> call = {"function": {"name": "guess", "arguments": {"word": "mouse"}}}
        >>> text = tokenizer.apply_chat_template([{"role": "assistant", "tool_calls": [call]}], tokenize=False)
        >>> tokenizer.tokenize(text)[1:]
        ['<tool_call>\n{"name": "guess", "arguments": {', '"word": ', '"mouse"', '}}\n</tool_call>', '<|im_end|>']
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    functions = [tool.get("function", tool) for tool in tools]
    split = pre_tokenizers.Split(Regex(_WORD_PATTERN), behavior="isolated")
    words = dict.fromkeys([PAD, UNKNOWN, *"0123456789"])
    for text in ["", " ".join(function["name"] for function in functions), *texts]:
        words.update(dict.fromkeys(word for word, _ in split.pre_tokenize_str(text)))
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.Fuse()
    starts = [f"<|im_start|>{role}\n" for role in ROLES]
    tokenizer.add_special_tokens([AddedToken(piece, normalized=False) for piece in [END_OF_TURN, *starts]])
    pieces = dict.fromkeys([*_pieces(functions), *(json.dumps(value, ensure_ascii=False) for value in values)])
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in pieces if piece not in words])
    made = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END_OF_TURN,
        unk_token=UNKNOWN,
        chat_template=TOOL_CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
    made.response_template = RESPONSE_TEMPLATE
    return made


def _pieces(functions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the template's text around the arguments of calls, and the arguments that the schemas list."""
    for function in functions:
        properties = function.get("parameters", {}).get("properties", {})
        yield f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {{'
        yield f"\n# {function['name']}({', '.join(properties)})"
        for name, schema in properties.items():
            yield f"{json.dumps(name)}: "
            yield f", {json.dumps(name)}: "
            yield from (json.dumps(value, ensure_ascii=False) for value in schema.get("enum", ()))
    yield "}}\n</tool_call>"
