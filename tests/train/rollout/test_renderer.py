"""Records of episodes: their messages are, in the chat template, the tokens that the model was fed and wrote."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import trl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.models.chat_models import CHATML, letter_tokenizer
from transformers import PreTrainedTokenizerFast

from openenv.adapters.text import ActionText
from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import Tool
from openenv.core.env_server.types import Action
from openenv.core.exceptions import OpenEnvError, RequestRejectedError
from openenv.train.agents.tiny import build_tokenizer
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.forms.form import prompt_messages
from openenv.train.forms.text_form import TextForm
from openenv.train.forms.tool_form import EPISODE_OVER, ToolForm
from openenv.train.generation.generator import Completion
from openenv.train.rollout.chat_renderer import ChatRenderer
from openenv.train.rollout.loop import play_together
from openenv.train.rollout.model_actor import ModelActor
from openenv.train.rollout.plain_renderer import PlainRenderer
from openenv.train.rollout.play import Limits, Play
from openenv.train.rollout.renderer import Renderer
from openenv.train.rollout.tool_renderer import ToolRenderer, Unreadable
from openenv.train.tools.environment_tools import EnvironmentTools

MODEL: Any = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=None))
QWEN = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text()
PROMPT = prompt_messages("Climb the stairs.", "Be quick.")
MOVES = ["up", "rest"]
CLIMB = Tool(
    name="climb",
    description="Climb.",
    input_schema={"type": "object", "properties": {"move": {"enum": [*MOVES, "fly"]}}, "required": ["move"]},
)
TOOLS = EnvironmentTools([CLIMB, Tool(name="look", description="Look.", input_schema={"type": "object"})], {})
_LONGEST = 80


class Climb(Action):
    move: Literal["up", "rest"]


class Say(Action):
    word: str


class Stairs:
    """Stairs on which resting is refused, and whose top ends the episode."""

    def __init__(self, height: int) -> None:
        self.height = height
        self.steps = 0

    def try_reset(self, tasks: Sequence[Mapping[str, Any]]) -> Sequence[StepResult[Any] | OpenEnvError]:
        return [StepResult({"text": f"step 0 of {self.height}"})]

    def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult[Any] | OpenEnvError]:
        return {number: self._step(str(action)) for number, action in actions.items()}

    def _step(self, action: str) -> StepResult[Any] | OpenEnvError:
        if "rest" in action:
            return RequestRejectedError("No resting.", code="VALIDATION_ERROR")
        self.steps += 1
        text = f"step {self.steps} of {self.height}"
        return StepResult({"text": text}, reward=0.5, done=self.steps == self.height)


class Script:
    """Generator that writes answers in their order, the last one again and again, and keeps within its limits."""

    def __init__(self, answers: Sequence[Sequence[int]]) -> None:
        self.answers = [list(answer) for answer in answers]
        self.fed: list[int] = []
        self.cut = 0

    def feed(self, rows: Sequence[Sequence[int]]) -> None:
        (row,) = rows
        self.fed += row

    def generate(self, limits: Sequence[int], stop_ids: frozenset[int]) -> list[Completion]:
        (limit,) = limits
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        written = answer[:limit]
        self.fed += written[:-1]
        return [Completion(written, [-1.0] * len(written), written[-1] in stop_ids)]

    def keep(self, rows: Sequence[int]) -> None:
        raise AssertionError("there is one row")


def played(renderer: Renderer, answers: Sequence[Sequence[int]], height: int, limits: Limits) -> Play:
    play = Play({}, max_turns=limits.max_turns, shown=renderer.shown)
    script = Script(answers)
    play_together(ModelActor(script, renderer, limits), [play], Stairs(height))
    episode = play.episode
    assert [*script.fed, episode.completion_ids[-1]] == episode.prompt_ids + episode.completion_ids
    return play


def read_messages(play: Play) -> list[dict[str, Any]]:
    """Return the messages that the model has read or written: those up to its last answer."""
    last = max(number for number, message in enumerate(play.messages) if message["role"] == "assistant")
    return play.messages[: last + 1]


def check_record(tokenizer: PreTrainedTokenizerFast, renderer: Renderer, play: Play) -> None:
    tools: Any = renderer.form.tools or None
    rendered = str(tokenizer.apply_chat_template(read_messages(play), tools=tools, tokenize=False))
    ids = tokenizer.encode(rendered, add_special_tokens=False)
    tokens = play.episode.prompt_ids + play.episode.completion_ids
    assert ids[: len(tokens)] == tokens, f"{rendered!r} is not {tokenizer.decode(tokens)!r}"
    # Behind the last answer the template ends the turn, unless the model has.
    assert str(tokenizer.decode(ids[len(tokens) :])).strip() in ("", "<|im_end|>")
    first = [message["role"] for message in play.messages].index("assistant")
    prompt: Any = tokenizer.apply_chat_template(
        play.messages[:first], tools=tools, add_generation_prompt=True, tokenize=False
    )
    assert tokenizer.encode(prompt, add_special_tokens=False) == play.episode.prompt_ids
    texts = renderer.texts(tokens)
    assert "".join(texts[token] for token in tokens) == tokenizer.decode(tokens)


LETTERS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
SAID = st.one_of(
    st.sampled_from([*MOVES, " up\n", "Up!", "<think>rest?</think>up", "<|im_start|>user up", ""]), LETTERS
)
ENDS = st.sampled_from(["<|im_end|>", "<|im_end|>", ""])
LIMITS = st.builds(Limits, st.integers(1, 6), st.sampled_from([1000, 1200, 9999]), st.sampled_from([60, 9999]))


def tokens_of(tokenizer: PreTrainedTokenizerFast, answers: Sequence[tuple[str, str]]) -> list[list[int]]:
    """Return answers as tokens; one without an end is cut off by the limit of its length."""
    written = [tokenizer.encode(text + end, add_special_tokens=False) for text, end in answers]
    filler = tokenizer.encode("x", add_special_tokens=False)
    return [
        ids if end else (ids + filler * _LONGEST)[:_LONGEST] for ids, (_, end) in zip(written, answers, strict=True)
    ]


CHAT = letter_tokenizer(CHATML)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(SAID, ENDS), min_size=1, max_size=5), st.integers(1, 3), LIMITS)
def test_messages_of_texts_are_the_tokens(answers: list[tuple[str, str]], height: int, limits: Limits) -> None:
    actions = ActionText(Climb)
    form = TextForm(actions, actions.instructions(), prompt=PROMPT)
    renderer = ChatRenderer(CHAT, MODEL, form, _LONGEST)
    play = played(renderer, tokens_of(CHAT, answers), height, limits)
    check_record(CHAT, renderer, play)
    assert play.messages[0] == {"role": "system", "content": "Be quick."}
    assert play.messages[1]["content"] == (f"Climb the stairs.\n{actions.instructions()}\n\nstep 0 of {height}")
    problems = [turn.problem for turn in play.episode.turns]
    told = ["That was no legal action" in message["content"] for message in play.messages[3::2]]
    assert told == [problem is not None for problem in problems]


ACTIONS: list[type[Action]] = [Climb, Say]

CALLS: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        lambda name, arguments: (name, arguments),
        st.sampled_from(["climb", "look", "jump"]),
        st.fixed_dictionaries({"move": st.sampled_from([*MOVES, "fly"])}),
    ),
    st.just(("look", {})),
)


def written_call(name: str, arguments: Mapping[str, Any]) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


CALLING = st.one_of(
    st.lists(CALLS, min_size=1, max_size=3).map(lambda calls: "\n".join(written_call(*call) for call in calls)),
    st.sampled_from(["I give up.", "", '<tool_call>\n{"name": "cli']),
)
QWENS = letter_tokenizer(QWEN)


@pytest.mark.parametrize("unreadable", ["tell", "end"])
@settings(max_examples=20, deadline=None)
@given(st.lists(CALLING, min_size=1, max_size=5), st.integers(1, 3), LIMITS)
def test_messages_of_calls_are_the_tokens(
    unreadable: Unreadable, answers: list[str], height: int, limits: Limits
) -> None:
    form = ToolForm(TOOLS, prompt=PROMPT)
    stops = frozenset({int(QWENS.eos_token_id)})
    renderer = ToolRenderer(QWENS, form, stops, max_action_tokens=400, unreadable=unreadable)
    play = played(renderer, tokens_of(QWENS, [(text, "<|im_end|>") for text in answers]), height, limits)
    check_record(QWENS, renderer, play)
    assert play.messages[1]["content"] == f"Climb the stairs.\n\nstep 0 of {height}"
    answered = [message["content"] for message in play.messages if message["role"] == "tool"]
    assert [content for content in answered if content != EPISODE_OVER] == [result.content for result in play.results]


@settings(max_examples=20, deadline=None)
@given(st.lists(CALLING, min_size=1, max_size=4), st.integers(1, 3), LIMITS)
def test_messages_of_the_tiny_policy_s_calls_are_the_tokens(answers: list[str], height: int, limits: Limits) -> None:
    texts = ["step 0 1 2 3 of", "I give up.", '<tool_call> {"name": "cli']
    tokenizer = build_tool_tokenizer(TOOLS.schemas(), texts, [*MOVES, "fly", "jump"])
    renderer = ToolRenderer(tokenizer, ToolForm(TOOLS), frozenset({int(tokenizer.eos_token_id)}), unreadable="end")
    play = played(renderer, tokens_of(tokenizer, [(text, "<|im_end|>") for text in answers]), height, limits)
    check_record(tokenizer, renderer, play)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(ACTIONS),
    st.lists(st.sampled_from(["up", "rest", "of", "step up", "<pad>"]), min_size=1, max_size=4),
    st.integers(1, 3),
    LIMITS,
)
def test_messages_of_the_tiny_policy_are_the_tokens(
    action: type[Action], answers: list[str], height: int, limits: Limits
) -> None:
    actions = ActionText(action)
    tokenizer = build_tokenizer(actions.choices, ["up rest step of"])
    renderer = PlainRenderer(tokenizer, actions, 3)
    end = tokenizer.eos_token_id
    written = [tokenizer.encode(text)[: renderer.max_action_tokens] for text in answers]
    written = [ids if actions.choices or len(ids) == 2 else [*ids, end] for ids in written]
    play = played(renderer, written, height, limits)
    contents = [tokenizer.encode(message["content"]) for message in read_messages(play)]
    ended = [[*ids, *([] if actions.choices else [end])] if number % 2 else ids for number, ids in enumerate(contents)]
    tokens = play.episode.prompt_ids + play.episode.completion_ids
    flat = [token for ids in ended for token in ids]
    assert flat[: len(tokens)] == tokens
    assert flat[len(tokens) :] in ([], [end])


def test_an_answer_that_was_cut_off_is_counted_and_ends_within_the_record() -> None:
    actions = ActionText(Climb)
    renderer = ChatRenderer(CHAT, MODEL, TextForm(actions, prompt=PROMPT), 2)
    play = played(renderer, [CHAT.encode("up"), CHAT.encode("up<|im_end|>")], 2, Limits(5, 9999))
    assert (play.episode.cut_answers, play.episode.done) == (2, True)
    check_record(CHAT, renderer, play)


def test_an_episode_that_its_context_cuts_off_has_the_limit() -> None:
    actions = ActionText(Climb)
    renderer = ChatRenderer(CHAT, MODEL, TextForm(actions, prompt=PROMPT), _LONGEST)
    opening = renderer.opening(renderer.form.opening_messages("step 0 of 3"))
    play = played(renderer, [CHAT.encode("up<|im_end|>")], 3, Limits(5, len(opening) + 5))
    assert play.episode.cut_by == "max_context"
    check_record(CHAT, renderer, play)
