"""The tiny policy's tokenizer for tool calls."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer
from trl.chat_template_utils import (
    get_training_chat_template,
    is_chat_template_prefix_preserving,
    is_chat_template_stop_token_trained,
    parse_response,
    supports_tool_calling,
)

from openenv.train.agents.tiny_tools import build_tool_tokenizer

WORDS = ["mouse", "house", 'a "quoted" word', "ünïcode", "🟩"]
GUESS = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
MOVE = {
    "type": "object",
    "properties": {"direction": {"type": "string", "enum": ["left", "right"]}, "steps": {"type": "integer"}},
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "guess", "description": "Guess a word.", "parameters": GUESS}},
    {"type": "function", "function": {"name": "move", "description": "Move.", "parameters": MOVE}},
    {"type": "function", "function": {"name": "look_around", "description": "Look."}},
]
TEXTS = ["Find the secret word.\n", "M🟨 O⬛ U🟩\n12 guesses left.", '{"error": "no"}', "  two  blanks\t\n\n"]

TOKENIZER: Any = build_tool_tokenizer(TOOLS, TEXTS, values=[*WORDS, True, None, 1.5])

GUESSES = st.fixed_dictionaries({"word": st.sampled_from(WORDS)}).map(lambda arguments: ("guess", arguments))
MOVES = st.fixed_dictionaries(
    {}, optional={"direction": st.sampled_from(["left", "right", True, None]), "steps": st.just(1.5)}
).map(lambda arguments: ("move", arguments))
CALLS: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(GUESSES, MOVES, st.just(("look_around", {})))


def an_answer(*calls: tuple[str, Any]) -> dict[str, Any]:
    functions = [{"type": "function", "function": {"name": name, "arguments": given}} for name, given in calls]
    return {"role": "assistant", "content": "", "tool_calls": functions}


def ids_of(messages: list[dict[str, Any]], *, prompt: bool = False) -> list[int]:
    ids: list[int] = TOKENIZER.apply_chat_template(
        messages, tools=TOOLS, add_generation_prompt=prompt, tokenize=True, return_dict=False
    )
    return ids


def text_of(messages: list[dict[str, Any]], **settings: Any) -> str:
    text: str = TOKENIZER.apply_chat_template(messages, tokenize=False, **settings)
    return text


QUESTION = [{"role": "user", "content": TEXTS[0]}]
PROMPT = ids_of(QUESTION, prompt=True)
ANSWER = ids_of([*QUESTION, an_answer(("guess", {"word": "mouse"}))])[len(PROMPT) :]
CALL, END = ANSWER[:-1], ANSWER[-1:]


def test_trl_takes_it_as_a_tokenizer_that_calls_tools_and_trains() -> None:
    assert supports_tool_calling(TOKENIZER)
    assert is_chat_template_prefix_preserving(TOKENIZER)
    assert is_chat_template_stop_token_trained(TOKENIZER)
    assert get_training_chat_template(TOKENIZER) is None, "TRL would put another template in its place"


def test_a_call_with_one_argument_is_four_tokens_and_the_end() -> None:
    assert TOKENIZER.convert_ids_to_tokens(ANSWER) == [
        *('<tool_call>\n{"name": "guess", "arguments": {', '"word": ', '"mouse"', "}}\n</tool_call>", "<|im_end|>"),
    ]
    assert ANSWER[-1] == TOKENIZER.eos_token_id


def test_the_model_is_shown_the_tools_and_the_whole_conversation() -> None:
    conversation = [
        {"role": "system", "content": "two"},
        *QUESTION,
        an_answer(("move", {"direction": "left", "steps": 2})),
        {
            "role": "tool",
            "name": "move",
            "content": [{"type": "text", "text": "M🟨"}, {"type": "text", "text": " O⬛"}],
        },
        {"role": "assistant", "content": "the secret"},
    ]
    assert text_of(conversation, tools=TOOLS) == (
        "<|im_start|>system\ntwo\n# guess(word)\n# move(direction, steps)\n# look_around()<|im_end|>"
        "<|im_start|>user\nFind the secret word.\n<|im_end|>"
        '<|im_start|>assistant\n<tool_call>\n{"name": "move", "arguments": {"direction": "left", "steps": 2}}\n'
        "</tool_call><|im_end|>"
        "<|im_start|>tool\nM🟨 O⬛<|im_end|>"
        "<|im_start|>assistant\nthe secret<|im_end|>"
    )
    assert text_of(QUESTION, add_generation_prompt=True) == (
        "<|im_start|>user\nFind the secret word.\n<|im_end|><|im_start|>assistant\n"
    )
    assert text_of([{"role": "assistant"}]) == "<|im_start|>assistant\n<|im_end|>"


def test_arguments_in_json_are_written_as_they_are() -> None:
    as_json = an_answer(("guess", '{"word": "mouse"}'))
    assert text_of([as_json]) == text_of([an_answer(("guess", {"word": "mouse"}))])


@given(st.lists(st.tuples(CALLS, st.sampled_from(TEXTS)), max_size=4))
def test_nothing_that_it_knows_is_lost(turns: list[tuple[tuple[str, dict[str, Any]], str]]) -> None:
    conversation = list(QUESTION)
    for call, result in turns:
        conversation += [an_answer(call), {"role": "tool", "name": call[0], "content": result}]
    ids = ids_of(conversation)
    assert TOKENIZER.unk_token_id not in ids
    assert TOKENIZER.decode(ids) == text_of(conversation, tools=TOOLS)


@given(CALLS)
def test_a_call_is_read_back_as_it_was_made(call: tuple[str, dict[str, Any]]) -> None:
    answer = ids_of([*QUESTION, an_answer(call)])[len(PROMPT) :]
    assert parse_response(TOKENIZER, answer, prefix=PROMPT) == {**an_answer(call), "content": ""}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(CALL, id="no end of the turn"),
        pytest.param(CALL[:-1] + END, id="no closing"),
        pytest.param(CALL[1:] + END, id="no opening"),
        pytest.param(CALL[:2] + CALL[3:] + END, id="no value"),
        pytest.param(CALL[:2] + CALL[2:3] * 2 + CALL[3:] + END, id="two values"),
        pytest.param(CALL + CALL + END, id="two calls"),
        pytest.param(CALL + END + CALL + END, id="a call after the end"),
        pytest.param(TOKENIZER.encode("Find") + CALL + END, id="text before"),
        pytest.param(CALL + TOKENIZER.encode("Find") + END, id="text behind"),
        pytest.param(CALL[:1] + CALL + END, id="a call within a call"),
        pytest.param(END, id="nothing"),
    ],
)
def test_what_is_no_whole_call_and_nothing_else_is_text(answer: list[int]) -> None:
    read = parse_response(TOKENIZER, answer, prefix=PROMPT)
    assert "tool_calls" not in read
    assert read["role"] == "assistant"


def test_text_is_read_as_text() -> None:
    answer = [*TOKENIZER.encode("Find the secret word."), *END]
    assert parse_response(TOKENIZER, answer, prefix=PROMPT) == {"role": "assistant", "content": "Find the secret word."}


def test_only_what_the_model_writes_is_learned() -> None:
    conversation = [
        *QUESTION,
        an_answer(("guess", {"word": "mouse"})),
        {"role": "tool", "name": "guess", "content": TEXTS[1]},
        {"role": "assistant", "content": ""},
    ]
    made = TOKENIZER.apply_chat_template(conversation, tools=TOOLS, return_assistant_tokens_mask=True, return_dict=True)
    learned = [token for token, mask in zip(made["input_ids"], made["assistant_masks"], strict=True) if mask]
    assert learned == ANSWER + END


def test_a_saved_tokenizer_is_the_same(tmp_path: Path) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(str(tmp_path))
    assert loaded.get_vocab() == TOKENIZER.get_vocab()
    assert (loaded.pad_token, loaded.eos_token, loaded.unk_token) == ("<|endoftext|>", "<|im_end|>", "<|unknown|>")
    assert loaded.apply_chat_template(QUESTION, tools=TOOLS, tokenize=False) == text_of(QUESTION, tools=TOOLS)
    assert parse_response(loaded, ANSWER, prefix=PROMPT) == parse_response(TOKENIZER, ANSWER, prefix=PROMPT)


def test_words_that_it_does_not_know_are_one_token() -> None:
    assert TOKENIZER.tokenize("Find nothing 7") == ["Find", "<|unknown|>", "<|unknown|>"]


@given(st.lists(st.text(max_size=30), max_size=5), st.lists(st.text(max_size=10) | st.integers() | st.booleans()))
def test_whatever_the_texts_and_values_are_they_are_known(texts: list[str], values: list[Any]) -> None:
    tokenizer = build_tool_tokenizer(TOOLS, texts, values)
    for text in texts:
        ids = tokenizer.encode(text)
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text
    for value in values:
        assert len(tokenizer.encode(json.dumps(value, ensure_ascii=False))) == 1


def test_tools_may_stand_without_their_wrapping() -> None:
    functions = [tool["function"] for tool in TOOLS]
    assert build_tool_tokenizer(functions, TEXTS, values=WORDS).get_vocab() == (
        build_tool_tokenizer(TOOLS, TEXTS, values=WORDS).get_vocab()
    )
