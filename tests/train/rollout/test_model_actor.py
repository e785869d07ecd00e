"""A model as an agent, with generators, renderers and environments that do anything: its record is what happened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openenv.core.client_types import StepResult
from openenv.core.exceptions import (
    ConfigurationError,
    OpenEnvError,
    RequestRejectedError,
    ServerExecutionError,
)
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.form import Form
from openenv.train.forms.moves import Move, MoveResult, ReadAnswer
from openenv.train.generation.generator import Completion
from openenv.train.rollout.loop import play_together
from openenv.train.rollout.model_actor import ModelActor
from openenv.train.rollout.play import Limits, Play
from openenv.train.rollout.renderer import Renderer

STOP = 9
PAD = 0


@dataclass
class Row:
    """One text of a generator, and what it is going to write."""

    script: list[list[int]]
    text: list[int] = field(default_factory=list)
    wrote: list[int] = field(default_factory=list)


class ScriptedGenerator:
    """Writes a script, and keeps what it was fed and wrote."""

    def __init__(self, scripts: Sequence[Sequence[Sequence[int]]]) -> None:
        self.all_rows = [Row([list(answer) for answer in script]) for script in scripts]
        self.rows: list[Row] = []

    def begin(self, playing: Sequence[int]) -> None:
        self.rows = [self.all_rows[number] for number in playing]

    def feed(self, rows: Sequence[Sequence[int]]) -> None:
        assert len(rows) == len(self.rows)
        for row, new in zip(self.rows, rows, strict=True):
            assert new, "every row that plays on is fed"
            if row.wrote:
                assert new[0] == row.wrote[-1], "the last token of an answer has not been fed yet"
            row.text += new
            row.wrote = []

    def generate(self, limits: Sequence[int], stop_ids: frozenset[int]) -> list[Completion]:
        completions = []
        for row, limit in zip(self.rows, limits, strict=True):
            assert limit >= 1
            tokens = (row.script.pop(0) if row.script else [1, STOP])[:limit]
            row.text += tokens[:-1]
            row.wrote = tokens
            completions.append(Completion(tokens, [-float(token) for token in tokens], tokens[-1] in stop_ids))
        return completions

    def keep(self, rows: Sequence[int]) -> None:
        self.rows = [self.rows[row] for row in rows]


class CountingForm(Form):
    """Each number from 1 to 8 in an answer is a move; what comes of it is a number too."""

    tools: list[dict[str, Any]] = []  # noqa: RUF012
    prompt: list[dict[str, Any]] = [{"role": "user", "content": "0"}]  # noqa: RUF012

    def shown(self, result: StepResult[Any]) -> str:
        return str(result.observation)

    def opening(self, before: Any, observation: Any) -> str:
        return f"{before} {observation}"

    def move(self, action: Any) -> Move:
        return Move(str(action), action)

    def read(self, answer: Message) -> list[Move]:
        return [
            Move(token, action=None if token == "8" else int(token), problem="8 is none" if token == "8" else None)
            for token in answer["content"].split()
        ]

    def answer(self, move: Move, turn: int) -> Message:
        return {"role": "assistant", "content": move.text}

    def replies(self, answer: Message, results: Sequence[MoveResult], *, failed: bool = False) -> list[Message]:
        return [{"role": "user", "content": result.observation} for result in results]


class CountingRenderer(Renderer):
    """Each number is a token."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(pad_token_id=PAD), CountingForm(), frozenset({STOP}), 5)  # type: ignore[arg-type]

    def opening(self, messages: Sequence[Message]) -> list[int]:
        (message,) = messages
        number, _, observation = message["content"].partition(" ")
        return [100, 100 + int(number), *([200 + int(observation)] if observation else [])]

    def read(self, written: Sequence[int]) -> ReadAnswer:
        message = {"role": "assistant", "content": " ".join(str(token) for token in written if token != STOP)}
        return ReadAnswer(message, self.form.read(message))

    def reply(self, written: Sequence[int], messages: Sequence[Message]) -> list[int]:
        assert len(messages) == len(self.read(written).moves), "a reply follows only where all was done"
        return [300, *(400 + int(message["content"]) for message in messages)]

    def answer(self, action: str) -> list[int]:
        return [int(action), STOP]


class CountingEnvironments:
    """Each counts its steps to its end; 7 is refused, and 6 breaks it."""

    def __init__(self, first: Sequence[StepResult[Any] | OpenEnvError], ends: Sequence[int]) -> None:
        self.first = first
        self.ends = list(ends)
        self.steps = [0] * len(ends)
        self.over = [False] * len(ends)

    def try_reset(self, tasks: Sequence[Mapping[str, Any]]) -> Sequence[StepResult[Any] | OpenEnvError]:
        assert list(tasks) == [{"seed": number} for number in range(len(self.ends))]
        return self.first

    def step(self, actions: Mapping[int, int]) -> dict[int, StepResult[Any] | OpenEnvError]:
        return {number: self._step(number, action) for number, action in actions.items()}

    def _step(self, number: int, action: int) -> StepResult[Any] | OpenEnvError:
        assert not self.over[number], "an episode that is over takes no more actions"
        if action == 7:
            return RequestRejectedError("7 is refused", code="VALIDATION_ERROR")
        if action == 6:
            self.over[number] = True
            return ServerExecutionError("it broke", code="EXECUTION_ERROR")
        self.steps[number] += 1
        self.over[number] = self.steps[number] == self.ends[number]
        return StepResult(observation=self.steps[number], reward=0.5, done=self.over[number])


def play(
    scripts: Sequence[Sequence[Sequence[int]]],
    ends: Sequence[int],
    limits: Limits,
    first: Sequence[StepResult[Any] | OpenEnvError] | None = None,
) -> tuple[list[Episode], list[list[MoveResult]], ScriptedGenerator]:
    renderer = CountingRenderer()
    plays = [
        Play({"seed": number}, number=number, max_turns=limits.max_turns, shown=renderer.shown)
        for number in range(len(scripts))
    ]
    began = first or [StepResult(observation=0) for _ in scripts]
    generator = ScriptedGenerator(scripts)
    generator.begin(
        [number for number, result in enumerate(began) if isinstance(result, StepResult) and not result.done]
    )
    prompts = [[{"role": "user", "content": str(number)}] for number in range(len(scripts))]
    agent = ModelActor(generator, renderer, limits, prompts)
    play_together(agent, plays, CountingEnvironments(began, ends))
    return [play.episode for play in plays], [play.results for play in plays], generator


ANSWER = st.one_of(
    st.lists(st.sampled_from([1, 2, 7, 8]), max_size=4).map(lambda moves: [*moves, STOP]),
    st.lists(st.sampled_from([1, 7]), min_size=1, max_size=7),  # cut off
)
SCRIPT = st.lists(ANSWER, max_size=5)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(SCRIPT, st.integers(1, 6)), min_size=1, max_size=5),
    st.integers(1, 8),
    st.integers(4, 60),
    st.integers(1, 60),
)
def test_the_record_is_what_was_fed_and_written(
    games: list[tuple[list[list[int]], int]], max_turns: int, max_context: int, max_completion: int
) -> None:
    limits = Limits(max_turns, max_context, max_completion)
    episodes, results, generator = play([script for script, _ in games], [end for _, end in games], limits)
    for number, (episode, done, (_, end)) in enumerate(zip(episodes, results, games, strict=True)):
        row = generator.all_rows[number]
        # What the generator was fed and wrote, with the last token, which is fed to nobody.
        assert episode.prompt_ids + episode.completion_ids == [*row.text, row.wrote[-1]]
        assert episode.prompt_ids == [100, 100 + number, 200]
        assert len(episode.completion_ids) == len(episode.logprobs) == len(episode.env_mask)
        for token, logprob, mask in zip(episode.completion_ids, episode.logprobs, episode.env_mask, strict=True):
            assert mask == (token <= STOP), "1 where the model wrote, and nowhere else"
            assert logprob == (-float(token) if mask else 0.0)
        assert 1 <= len(episode.completion_ids) <= max_completion
        assert episode.length <= max_context
        assert episode.env_mask[-1] == 1, "an episode ends with what the model wrote"
        assert len(episode.turns) == len(done) <= max_turns
        assert [turn.problem is None for turn in episode.turns] == [result.problem is None for result in done]
        steps = [result for result in done if result.result is not None]
        assert episode.reward == 0.5 * len(steps)
        assert episode.done == (len(steps) == end)
        assert not any(result.result.done for result in steps[:-1] if result.result)


def test_failures_spoil_only_their_own_episode() -> None:
    first: list[StepResult[Any] | OpenEnvError] = [
        StepResult(observation=0),
        ServerExecutionError("closed", code="EXECUTION_ERROR"),
        StepResult(observation=0),
        StepResult(observation=0),
        StepResult(observation=0),
    ]
    scripts = [[[1, STOP]], [], [[1, 6, 1, STOP]], [[1, STOP]], [[1, STOP]]]
    episodes, results, _ = play(scripts, [1, 1, 5, 1, 1], Limits(9, 99), first)
    assert [type(episode.error) for episode in episodes] == [
        type(None),
        ServerExecutionError,
        ServerExecutionError,
        type(None),
        type(None),
    ]
    assert (episodes[1].completion_ids, episodes[1].env_mask, results[1]) == ([PAD], [0], [])
    assert [turn.action for turn in episodes[2].turns] == ["1"], "what broke it is no turn, and nothing follows"
    assert [result.observation for result in results[2]] == ["1"]
    assert all(episodes[number].done for number in (0, 3, 4))


def test_an_episode_that_is_over_at_its_reset_is_not_played() -> None:
    episodes, _, _ = play([[], [[1, STOP]]], [1, 1], Limits(9, 99), [StepResult(3, 0.0, done=True), StepResult(0)])
    assert (episodes[0].done, episodes[0].completion_ids, episodes[0].env_mask) == (True, [PAD], [0])
    assert episodes[1].turns


def test_an_answer_without_actions_ends_the_episode() -> None:
    episodes, results, _ = play([[[1, STOP], [STOP], [1, STOP]]], [9], Limits(9, 99))
    assert episodes[0].completion_ids == [1, STOP, 300, 401, STOP]
    assert (len(results[0]), episodes[0].done, episodes[0].error) == (1, False, None)


def test_a_refusal_is_a_problem_and_the_episode_goes_on() -> None:
    episodes, results, _ = play([[[7, STOP], [8, STOP], [1, STOP]]], [1], Limits(9, 99))
    assert [result.problem for result in results[0]] == ["7 is refused", "8 is none", None]
    assert [result.content for result in results[0]] == ["7 is refused", "8 is none", "1"]
    assert [turn.problem for turn in episodes[0].turns] == ["7 is refused", "8 is none", None]
    assert episodes[0].illegal_actions == 2


def test_the_limit_that_cuts_an_episode_off_is_noted() -> None:
    one, long = [[1, STOP]] * 9, [[1, 1, 1, 1, 1, 1, 1]] * 9
    (ended, by_turns), _, _ = play([one, one], [2, 9], Limits(3, 99))
    assert (ended.done, ended.cut_by, by_turns.cut_by) == (True, None, "max_turns")
    (by_context, by_completion), _, _ = play([one, long], [9, 99], Limits(9, 12))
    assert (by_context.cut_by, by_completion.cut_by) == ("max_context", "max_context")


def test_answers_that_are_cut_off_are_counted() -> None:
    (episode,), _, _ = play([[[1, STOP], [1] * 5, [1] * 4 + [STOP], [1] * 7, [1, STOP]]], [99], Limits(99, 999))
    assert episode.cut_answers == 2


def test_a_beginning_that_leaves_no_room_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"has 3 tokens .*set a larger max_context"):
        play([[]], [1], Limits(9, 3))
