"""Lines of conversations on record."""

from openenv.cli.views.conversation import answer_lines, token_lines
from openenv.traces.conversation import parts_of
from openenv.traces.episodes import RESET, STEP, Conversation, Entry

MESSAGES = [
    {"role": "user", "content": "ball 3"},
    {"role": "assistant", "content": "hm"},
    {"role": "user", "content": "That was no legal action: ..."},
    {"role": "assistant", "content": "<think>Left?</think>The answer is left."},
    {"role": "user", "content": "ball 2"},
    {"role": "assistant", "content": "right"},
]


def entry(kind: str, request: dict[str, str]) -> Entry:
    return Entry(kind, 0.0, 0.0, request, {"observation": None}, failed=False)


def test_each_token_has_its_text_and_its_probability() -> None:
    conversation = Conversation(
        "e", prompt_ids=[7, 8], completion_ids=[9, 7], logprobs=[-0.5, 0.0], env_mask=[1, 0], token_texts={"7": "\n"}
    )
    assert list(token_lines(conversation)) == [
        "     0 read               7  '\\n'",
        "     1 read               8",
        "     2 model  60.7%       9",
        "     3 read               7  '\\n'",
    ]


def test_a_step_has_the_model_s_own_words() -> None:
    entries = [entry(RESET, {}), entry(STEP, {"move": "left"}), entry(STEP, {"move": "right"})]
    parts = parts_of(MESSAGES, entries)
    assert [list(answer_lines(part, MESSAGES)) for part in parts] == [
        [],
        ["model, without a step: hm", "model thinks: Left?", "model: The answer is left."],
        [],
    ]
