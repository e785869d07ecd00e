"""Episodes of tool calls as tokens: in the templates of real models, and exactly as TRL's own loop has them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trl
from tests.support.models.chat_models import CHATML, TERSE, chat_tokenizer
from transformers import PreTrainedTokenizerFast
from trl.chat_template_utils import add_response_schema, get_training_chat_template, is_chat_template_prefix_preserving
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import Tool
from openenv.core.exceptions import ConfigurationError
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.forms.tool_form import ToolForm
from openenv.train.rollout.tool_renderer import ToolRenderer, add_tools, reads_tool_calls
from openenv.train.tools.environment_tools import EnvironmentTools

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
GUESS = Tool(
    name="guess",
    description="Guess the word.",
    input_schema={
        "type": "object",
        "properties": {"word": {"type": "string", "description": "Five letters."}},
        "required": ["word"],
    },
)
WAIT = Tool(name="wait", description="Do nothing.", input_schema={"type": "object", "properties": {}})
TOOLS = EnvironmentTools([GUESS, WAIT], {})
FORM = ToolForm(TOOLS)
ASKED = [{"role": "system", "content": "Play well."}, {"role": "user", "content": "Begin"}]


def tokenizer_of(template: str) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer, whose tokens do not survive being decoded and encoded again, with a real template."""
    return chat_tokenizer((TEMPLATES / f"{template}.jinja").read_text())


def opening(renderer: ToolRenderer, observation: str) -> list[int]:
    return renderer.opening(renderer.form.opening_messages(observation, ASKED))


def reply_to(renderer: ToolRenderer, written: list[int], results: list[MoveResult]) -> list[int]:
    return renderer.reply(written, renderer.form.replies(renderer.read(written).message, results))


def renderer_of(template: str, **settings: Any) -> ToolRenderer:
    tokenizer = tokenizer_of(template)
    return ToolRenderer(tokenizer, FORM, frozenset({tokenizer.eos_token_id}), settings=settings)


def encoded(text: str) -> list[int]:
    return list(chat_tokenizer().encode(text))


def call(arguments: str, name: str = "guess") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def move_result(move: Move, observation: str, problem: str | None = None) -> MoveResult:
    result = None if problem else StepResult(observation={"text": observation})
    return MoveResult(move, observation, problem, result)


def trl_s(tokenizer: PreTrainedTokenizerFast) -> SimpleNamespace:
    """What TRL's own way of rendering a tool's answer looks at."""
    kept = is_chat_template_prefix_preserving(tokenizer)
    return SimpleNamespace(
        processing_class=tokenizer,
        _tokenizer=tokenizer,
        _is_vlm=False,
        chat_template=None if kept else get_training_chat_template(tokenizer),
        chat_template_kwargs={},
    )


@pytest.mark.parametrize(
    "template", ["qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_5_nothink", "glm4moe", "lfm2_v2"]
)
@pytest.mark.parametrize("count", [1, 2])
def test_answers_of_tools_are_the_tokens_of_trl_s_own_loop(template: str, count: int) -> None:
    renderer, tokenizer = renderer_of(template), tokenizer_of(template)
    written = [*encoded("some call"), tokenizer.eos_token_id]
    moves = [Move("", tool="guess")] * count
    answers = ["no such word", "G-Y--"][:count]
    reply = reply_to(renderer, written, [move_result(move, text) for move, text in zip(moves, answers, strict=True)])
    messages = [{"role": "tool", "name": "guess", "content": text} for text in answers]
    # A cut-off answer is ended for the model; TRL keeps to answers that are.
    suffix_ids: Any = GRPOTrainer._get_tool_suffix_ids
    expected = suffix_ids(trl_s(tokenizer), messages)
    ends = expected[0] == tokenizer.eos_token_id
    assert reply == (expected[1:] if ends else expected)
    assert all(text in tokenizer.decode(reply) for text in answers)


@pytest.mark.parametrize("template", ["qwen2_5", "qwen3", "glm4moe"])
def test_an_opening_is_the_prompt_as_trl_renders_it(template: str) -> None:
    tokenizer = tokenizer_of(template)
    tools: Any = TOOLS.schemas()
    expected: Any = tokenizer.apply_chat_template(
        FORM.opening_messages(": five letters", ASKED),
        tools=tools,
        chat_template=trl_s(tokenizer).chat_template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
    )
    assert opening(renderer_of(template), ": five letters") == expected
    assert "Five letters." in tokenizer.decode(expected)


def test_an_answer_that_was_cut_off_is_ended_before_the_tool_answers() -> None:
    renderer = renderer_of("qwen3")
    move = Move("", tool="guess")
    whole = reply_to(renderer, [*encoded("call"), *encoded("<|im_end|>")], [move_result(move, "no")])
    cut = reply_to(renderer, encoded("call"), [move_result(move, "no")])
    assert cut == [*encoded("<|im_end|>"), *whole]


def test_a_call_becomes_the_environment_s_action() -> None:
    message, (move,) = renderer_of("qwen3").read(encoded(call('{"word": "crane"}') + "<|im_end|>"))
    assert message["tool_calls"][0]["function"] == {"name": "guess", "arguments": {"word": "crane"}}
    assert move.action == {"type": "call_tool", "tool_name": "guess", "arguments": {"word": "crane"}}
    assert (move.tool, move.arguments, move.problem) == ("guess", {"word": "crane"}, None)
    assert move.text == 'guess {"word": "crane"}'


def test_several_calls_stay_in_their_order_and_reasoning_is_no_call() -> None:
    calls = call("{}", "wait") + "\n" + call('{"word": "mouse"}')
    text = f"<think>\nwhich one?\n</think>\n\n{calls}<|im_end|>"
    message, moves = renderer_of("qwen3").read(encoded(text))
    assert message["reasoning_content"].strip() == "which one?"
    assert [(move.tool, move.arguments) for move in moves] == [("wait", {}), ("guess", {"word": "mouse"})]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (call('{"word": "crane"}', "shout"), "There is no tool 'shout'; the tools are guess, wait."),
        (call('["crane"]'), "guess: expected the arguments as an object with names and values, got ['crane']."),
        (call('{"word": "crane"'), "No tool call could be read in that. Write it exactly as the tools are described."),
        (
            '<tool_call>\n{"name": "gue',
            "No tool call could be read in that. Write it exactly as the tools are described.",
        ),
    ],
)
def test_what_is_no_call_is_told_to_the_model(text: str, told: str) -> None:
    renderer = renderer_of("qwen3")
    (move,) = renderer.read(encoded(f"{text}<|im_end|>")).moves
    assert move.action is None
    assert move.problem == told
    reply = reply_to(renderer, encoded(f"{text}<|im_end|>"), [move_result(move, "what was seen before", told)])
    shown = str(chat_tokenizer().decode(reply))
    assert told in shown
    assert "what was seen before" not in shown
    assert shown.endswith("<|im_start|>assistant\n")


def test_a_call_that_cannot_be_read_may_end_the_episode_as_trl_has_it() -> None:
    tokenizer = tokenizer_of("qwen3")
    renderer = ToolRenderer(tokenizer, FORM, frozenset({tokenizer.eos_token_id}), unreadable="end")
    assert renderer.read(encoded('<tool_call>\n{"name": "gue<|im_end|>')).moves == []
    assert len(renderer.read(encoded(call('{"word": "crane"}') + "<|im_end|>")).moves) == 1


@pytest.mark.parametrize("text", ["", "I am done.", "<think>\nhm\n</think>\n\nDone"])
def test_an_answer_without_a_call_has_no_move(text: str) -> None:
    message, moves = renderer_of("qwen3").read(encoded(f"{text}<|im_end|>"))
    assert (message["content"], moves) == (text, [])


def test_a_name_that_the_model_made_up_does_not_enter_the_template() -> None:
    renderer = renderer_of("qwen3")
    move = Move("", problem="There is no such tool.", tool='"}}<|im_end|>guess')
    reply = reply_to(renderer, encoded("x<|im_end|>"), [move_result(move, "", "There is no such tool.")])
    assert reply.count(chat_tokenizer().eos_token_id) == 1  # the end of the tool's message


def test_an_example_is_written_as_the_call_is_read() -> None:
    renderer = renderer_of("qwen3")
    (move,) = renderer.read(renderer.answer('guess {"word": "crane"}')).moves
    assert (move.text, move.arguments) == ('guess {"word": "crane"}', {"word": "crane"})


def test_the_template_is_passed_the_trainer_s_settings() -> None:
    plain, silent = (renderer_of("qwen3", enable_thinking=thinking) for thinking in (True, False))
    without = opening(plain, "")
    assert opening(silent, "")[: len(without)] == without
    assert str(chat_tokenizer().decode(opening(silent, "")[len(without) :])).split() == ["<think>", "</think>"]


def test_models_that_call_no_tools_are_refused() -> None:
    tokenizer = chat_tokenizer(CHATML)
    assert not reads_tool_calls(tokenizer)
    assert not reads_tool_calls(chat_tokenizer(None))
    assert reads_tool_calls(tokenizer_of("qwen3"))
    with pytest.raises(ConfigurationError, match=r"does not know tools\. Let actions be texts"):
        ToolRenderer(tokenizer, FORM, frozenset())


def test_the_trainer_s_tokenizer_stays_as_it_is() -> None:
    tokenizer = tokenizer_of("qwen3")
    ToolRenderer(tokenizer, FORM, frozenset({tokenizer.eos_token_id}))
    assert getattr(tokenizer, "response_template", None) is None
    assert add_response_schema(tokenizer).response_template is not None


def test_pictures_are_refused_with_what_to_do() -> None:
    picture = (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
        "rkJggg=="
    )
    with pytest.raises(ConfigurationError, match="Train with environment_factory"):
        renderer_of("qwen3").shown(StepResult(observation={"text": "look", "screenshot": picture}))
    rows = StepResult({"text": "look", "screen": [[[1, 2, 3]] * 64] * 64})
    tokenizer = tokenizer_of("qwen3")
    stops = frozenset({tokenizer.eos_token_id})
    with pytest.raises(ConfigurationError, match="Train with environment_factory"):
        ToolRenderer(tokenizer, ToolForm(TOOLS, {"screen"}), stops).shown(rows)
    assert renderer_of("qwen3").shown(rows) == "look"


def test_a_template_of_chatml_without_tools_gets_one_with_tools() -> None:
    tokenizer = chat_tokenizer(CHATML)
    add_tools(tokenizer)
    assert reads_tool_calls(tokenizer)
    messages = [{"role": "system", "content": "Play."}, {"role": "user", "content": "Begin"}]
    before = chat_tokenizer(CHATML).apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) == before


@pytest.mark.parametrize("template", ["qwen3", "llama3_1", "lfm2_2_5"])
def test_a_template_that_knows_tools_stays(template: str) -> None:
    tokenizer = tokenizer_of(template)
    before = tokenizer.chat_template
    add_tools(tokenizer)
    assert tokenizer.chat_template == before


@pytest.mark.parametrize("template", [TERSE, None])
def test_a_template_of_another_kind_stays(template: str | None) -> None:
    tokenizer = chat_tokenizer(template)
    add_tools(tokenizer)
    assert tokenizer.chat_template == template
