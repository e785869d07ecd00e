"""Orders, filters and flags of the list of episodes, in files and in databases."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from tests.support.stored_episodes import episode
from typer.testing import CliRunner

from openenv import traces
from openenv.cli.__main__ import app
from openenv.core.exceptions import ConfigurationError
from openenv.traces import Conversation, Entry, Filter, TraceFile
from openenv.traces.episodes import Flag, Order

Scores = dict[str, Any]


def scored(*steps: Scores) -> list[Entry]:
    """Entries of an episode whose steps have these scores of components."""
    reset = Entry("reset", 1.0, 0.5, {}, {"observation": 0, "done": False}, False)
    answers = [{"observation": 0, "done": False, "metadata": {"reward_signals": scores}} for scores in steps]
    return [reset, *(Entry("step", 1.0, 0.5, {}, answer, False) for answer in answers)]


@pytest.fixture
def opened(location: str) -> TraceFile:
    return traces.open(location, create=True)


class TestComponents:
    """Three episodes with ``letters`` of 0.75, 0.25 and 2.0 and falling rewards, and one without components."""

    @pytest.fixture
    def names(self, opened: TraceFile) -> list[str]:
        steps: list[list[Scores]] = [
            [{"letters": 0.5}, {"letters": 0.25, "words": 1.0}],
            [{"letters": 0.25}],
            [{"letters": 1.5}, {"letters": 0.5}],
            [],
        ]
        return [opened.add(episode(number, reward=float(-number)), scored(*own)) for number, own in enumerate(steps)]

    def test_they_filter_and_order(self, opened: TraceFile, names: list[str]) -> None:
        for where, order, expected in (
            (Filter(component="letters"), "best", [2, 0, 1]),
            (Filter(component="letters"), "worst", [1, 0, 2]),
            (Filter(component="letters", min_reward=0.5), "newest", [2, 0]),
            (Filter(component="letters", max_reward=0.5), "newest", [1]),
            (Filter(component="words"), "longest", [0]),
            (Filter(component="other"), "newest", []),
            (Filter(min_reward=-1.0), "best", [0, 1]),  # the sum of the rewards
        ):
            found = [each.id for each in opened.episodes(where, order=order)]
            assert found == [names[number] for number in expected]
            assert opened.count(where) == len(expected)

    def test_pages_and_neighbours_follow_the_order(self, opened: TraceFile, names: list[str]) -> None:
        where = Filter(component="letters")
        (after,) = opened.episodes(where, 1, after=names[2], order="best")
        (before,) = opened.episodes(where, 1, before=names[1], order="best")
        assert (after.id, before.id) == (names[0], names[0])
        assert list(opened.episodes(where, after=names[1], order="best")) == []

    def test_episodes_and_groups_have_the_total(self, opened: TraceFile, names: list[str]) -> None:
        assert {each.component for each in opened.episodes(Filter(component="letters"))} == {0.75, 0.25, 2.0}
        assert {each.component for each in opened.episodes()} == {None}
        (group,) = opened.groups("environment", where=Filter(component="letters"))
        assert (group.episodes, group.min_reward, group.mean_reward, group.max_reward) == (3, 0.25, 1.0, 2.0)
        assert opened.components() == ["letters", "words"]

    def test_they_go_with_their_episode(self, opened: TraceFile, names: list[str]) -> None:
        opened.remove(names)
        assert opened.components() == []

    def test_what_a_table_can_not_hold_is_no_total(self, opened: TraceFile) -> None:
        odd = {"huge": 10**400, "nan": float("nan"), "text": "1", "no": None, "true": True, "": 1}
        name = opened.add(episode(), scored(odd, odd))
        assert opened.components() == ["", "true"]
        assert [each.id for each in opened.episodes(Filter(component="true", min_reward=2.0))] == [name]

    @pytest.mark.parametrize("left_out", ["metadata", "metadata.reward_signals", "metadata.reward_signals.letters"])
    def test_what_is_left_out_has_no_total(self, location: str, left_out: str) -> None:
        with traces.open(location, create=True, leave_out=[left_out]) as file:
            file.add(episode(), scored({"letters": 0.5, "words": 1.0}))
            assert file.components() == (["words"] if left_out.endswith("letters") else [])


class TestFlags:
    def test_each_is_read_and_filters(self, opened: TraceFile) -> None:
        def told(number: int, model: str = "m", **extra: Any) -> list[Conversation]:
            return [Conversation(f"e{number}", model=model, extra=extra)]

        rollouts = [(2, 0, 1.0), (2, 0, 1.0 + 1e-9), (2, 1, 0.0), (2, 1, 1.0), (3, 0, 1.0)]
        expected: dict[str, list[Flag]] = {}

        def add(flags: list[Flag], conversations: list[Conversation] = [], **known: Any) -> None:  # noqa: B006
            expected[opened.add(episode(len(expected), **known), [], conversations)] = flags

        for step, group, reward in rollouts:
            own = told(len(expected), step=step, group=group, reward=reward)
            add(["no_variance"] if (step, group) == (2, 0) else [], own, reward=0.0)
        add([], told(len(expected), "scripted player"), reward=0.5, environment="rated")
        add([], told(len(expected), "scripted player"), reward=0.7, environment="rated")
        add(["above_scripted"], reward=0.65, environment="rated")
        add([], reward=0.6, environment="rated")
        add([], reward=9.0, environment="unrated")
        add(["cut_off", "no_reward", "error"], reward=None, ending="truncated", error="EXECUTION_ERROR")
        add(["length_limit"], told(len(expected), cut_by="max_context"))
        add([], told(len(expected), cut_by=None, step="1", group=True, reward="high"))
        assert opened.flags(list(expected)) == expected
        for flag in get_args(Flag):
            found = {each.id for each in opened.episodes(Filter(flag=flag))}
            assert found == {name for name, flags in expected.items() if flag in flags}, flag

    def test_of_no_episodes_there_are_none(self, opened: TraceFile) -> None:
        assert opened.flags([]) == opened.flags(["nothing", "7-7"]) == {}
        other: Any = "red"
        with pytest.raises(ConfigurationError, match="no_variance"):
            opened.count(Filter(flag=other))


def test_the_command_has_every_order_and_filter(opened: TraceFile, location: str) -> None:
    """One definition serves the command and the page, whose route reads a query by `Filter`."""
    names = [
        opened.add(replace(episode(number), token_name="trainer"), scored({"letters": float(number)}))
        for number in range(3)
    ]
    listed: Callable[..., Any] = lambda *options: CliRunner().invoke(app, ["traces", "list", location, *options])  # noqa: E731
    text = listed("--help").output
    options = {"environment": "--env", "evaluation": "--evaluations"}
    for each in fields(Filter):
        assert options.get(each.name, f"--{each.name.replace('_', '-')}") in text
    for order in get_args(Order):
        found = [line.split()[0] for line in listed("--order", order).output.splitlines()]
        assert found == [each.id for each in opened.episodes(order=order)]
    chosen = listed("--component", "letters", "--min-reward", "1", "--order", "best", "--token-name", "trainer")
    assert [line.split()[0] for line in chosen.output.splitlines()] == [names[2], names[1]]
    assert "+2.000" in chosen.output
    assert listed("--flag", "no_reward").output == ""
