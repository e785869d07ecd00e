"""A conversation is divided among the entries of its episode, whatever the model wrote between its actions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.traces import Entry
from openenv.traces.conversation import call_line, parts_of

RESET = Entry("reset", 0.0, 0.0, {"seed": 1}, {"observation": {}}, False)


def step(request: Any) -> Entry:
    return Entry("step", 0.0, 0.0, request, {"observation": {}}, False)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str, *calls: tuple[str, Any], **others: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **others}
    if calls:
        message["tool_calls"] = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    return message


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text}


def divided(messages: Sequence[Any], entries: Sequence[Entry]) -> list[Any]:
    """Return the parts of a conversation with the messages in place of their positions."""
    parts = parts_of(messages, entries)
    return [
        SimpleNamespace(
            **{**asdict(part), "before": messages[slice(*part.before)], "read": messages[slice(*part.read)]}
        )
        for part in parts
    ]


def test_each_action_belongs_to_its_step() -> None:
    messages = [user("Go."), says("left"), user("One."), says('{"move": "right"}'), user("Two."), says("I go left")]
    moves = [step({"move": move, "metadata": {}}) for move in ("left", "right", "left")]
    first, *others = divided(messages, [RESET, *moves])
    assert (first.before, first.thought, first.action, first.read) == ([], "", None, [user("Go.")])
    assert [(part.action, part.is_verbatim, part.read) for part in others] == [
        ("left", True, [user("One.")]),
        ('{"move": "right"}', True, [user("Two.")]),
        ("I go left", False, []),
    ]


@pytest.mark.parametrize(
    ("message", "thought", "action"),
    [
        (says("<think>\nNear the wall.\n</think>\n\nleft"), "Near the wall.", "left"),
        (says("Near the wall.</think> left"), "Near the wall.", "left"),
        (says("<think>Near the w"), "Near the w", ""),
        (says("left", reasoning_content="Near the wall."), "Near the wall.", "left"),
        (says("left", reasoning="Near the wall."), "Near the wall.", "left"),
        (says("I look.", ("go", {"move": "left"})), "I look.", "go(move='left')"),
        (says("<think>Hm.</think>I look.", ("go", '{"move": "left"}')), "Hm.\n\nI look.", "go(move='left')"),
        (says("", ("go", "{broken")), "", "go({broken)"),
        (says(""), "", ""),
        ({"role": "assistant", "content": [{"type": "text", "text": "left"}, {"type": "image"}]}, "", "left\n[image]"),
        ({"role": "assistant", "content": None}, "", ""),
    ],
)
def test_what_a_model_thought_is_beside_what_it_did(message: Mapping[str, Any], thought: str, action: str) -> None:
    _, part = divided([user("Go."), message], [RESET, step({"move": "left"})])
    assert (part.thought, part.action) == (thought, action)


def test_calls_of_one_message_are_as_many_steps_with_an_answer_each() -> None:
    both = says("Both.", ("go", {"to": 1}), ("go", {"to": 2}))
    messages = [user("Go."), both, result("at 1"), result("at 2"), user("More?"), says("", ("stop", {}))]
    called = {"type": "call_tool", "tool_name": "go", "arguments": {"to": 1}}
    _, one, two, three = divided(messages, [RESET, step(called), step({"to": 2}), step({})])
    assert (one.thought, one.action, one.read, one.is_verbatim) == ("Both.", "go(to=1)", [result("at 1")], True)
    assert (two.thought, two.action, two.is_verbatim) == ("", "go(to=2)", True)
    assert two.read == [result("at 2"), user("More?")]
    assert (three.action, three.read) == ("stop()", [])


def test_a_message_that_was_one_step_elsewhere_stays_one() -> None:
    both = says("", ("go", {"to": 1}), ("go", {"to": 2}))
    _, part = divided([user("Go."), both, result("at 1")], [RESET, step({"tool_calls": both["tool_calls"]})])
    assert (part.action, part.is_verbatim) == ("go(to=1)\ngo(to=2)", True)


def test_actions_without_a_step_come_before_the_one_that_has_it() -> None:
    lost = [says("sideways"), user("That is no move."), says("no idea"), user("That is no move.")]
    messages = [user("Go."), *lost, says("right"), user("One."), says("up"), user("That is no move.")]
    parts = divided(messages, [RESET, step({"move": "right"})])
    assert (parts[1].before, parts[1].action) == (lost, "right")
    assert [part.before for part in parts[2:]] == [messages[-2:]]


@pytest.mark.parametrize("entries", [[], [RESET], [RESET, step({"a": 1}), step({"a": 2}), step({"a": 3})]])
def test_where_entries_or_actions_are_missing_the_rest_is_there(entries: Sequence[Entry]) -> None:
    parts = divided([user("Go."), says("1")], entries)
    assert len(parts) == max(len(entries), 1) + (entries == [RESET])
    assert all(part.action is None for part in parts[2:])


_texts = st.sampled_from(["left", "right", "", "no idea", "<think>x</think>left"])
_functions = st.tuples(st.sampled_from(["go", "stop"]), st.one_of(_texts, st.dictionaries(_texts, st.integers())))
_messages = st.one_of(
    st.builds(user, _texts), st.builds(result, _texts), st.builds(says, _texts), st.builds(says, _texts, _functions)
)
_requests = st.one_of(st.none(), _texts, st.dictionaries(_texts, st.one_of(_texts, st.integers(), st.none())))


@given(st.lists(_messages, max_size=12), st.lists(_requests, max_size=8), st.booleans())
def test_no_message_is_lost_or_doubled(messages: list[Any], requests: list[Any], has_reset: bool) -> None:
    parts = divided(messages, [*([RESET] if has_reset else []), *map(step, requests)])
    shown = sum(len(part.before) + len(part.read) + (part.action is not None) for part in parts)
    assert shown == len(messages)


def test_calls_are_written_in_a_line() -> None:
    assert call_line({"name": "go", "arguments": {"to": [1], "how": "fast"}}) == "go(to=[1], how='fast')"
    assert call_line({"name": "go", "arguments": '{"to": 1}'}) == "go(to=1)"
    assert call_line({"name": "go", "arguments": None}) == "go()"
