"""Any environment as a task of Inspect (https://inspect.aisi.org.uk), with the models, logs and limits of that.

::

    inspect eval openenv/play -T environment=wordle -T tasks=100 --model openai/gpt-4o-mini --epochs 4
"""

import atexit
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from anyio import Lock
from anyio.to_thread import run_sync
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentText,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolInfo, ToolParams
from inspect_ai.util import registry_info
from rich.console import Console

from openenv.core.client.blocking import wait_for
from openenv.core.exceptions import ModelAnswerError
from openenv.core.rubrics.bounds import reaches
from openenv.records.answers import CALL_REMEDIES, AnswerCounts, AnswerRule, IllegalAnswers
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.form import prompt_messages
from openenv.train.forms.openai_messages import to_openai
from openenv.train.forms.tool_form import ToolForm
from openenv.train.rollout.sessions import CAPACITY_WAIT_S, Sessions
from openenv.train.rollout.tool_play import ToolPlay
from openenv.train.tasks.seeds import evaluation_seeds
from openenv.train.tasks.task_choice import check_number, evaluation_tasks
from openenv.train.tools.contents import Content as ShownContent
from openenv.train.tools.contents import observed_pixels
from openenv.train.tools.environment_tools import EnvironmentTools

__all__ = ["play"]

EPISODE = "episode"

# Errors of Inspect's own readers where a server sends something else than an answer.
_UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
_ATTEMPTS = 3


@task
def play(
    environment: str,
    tasks: int | str = 100,
    num_tasks: int | None = None,
    reset: dict[str, Any] | None = None,
    max_turns: int = 32,
    system_prompt: str | None = None,
    success_reward: float = 1.0,
    sessions: int = 64,
    seed: int = 1,
    illegal_answers: IllegalAnswers = "fallback",
    illegal_penalty: float = 0.1,
) -> Task:
    """Play an environment by calls of its tools; one episode for each sample.

    Args:
        environment: Name of an environment, its folder, ``PREFIX:ID``, or a server's URL.
        tasks: How many seeds, a split of the environment's tasks, or a file of them.
        num_tasks: Only the first of these tasks; ``None`` for all.
        reset: What every reset is passed beside its task, whose own parameters win; ``None`` for nothing.
        max_turns: Actions after which an episode is cut off.
        system_prompt: The first message of every conversation; ``None`` for none.
        success_reward: The reward with which an episode is a success.
        sessions: Sessions that the environment's server may hold; at least as many as Inspect's ``--max-samples``.
        seed: What the seeds of the episodes derive from.
        illegal_answers: Effect of an illegal call. ``fallback``: it is not played, and the model may answer again.
            ``end``: it ends its episode. ``penalty``: as ``fallback``, and it costs ``illegal_penalty``.
        illegal_penalty: Reward that each illegal call costs where that is its effect.

    Returns:
        The task, with the scores ``reward``, ``success``, ``illegal_actions`` and ``no_calls``.

    Raises:
        ConfigurationError: A number of tasks is below 1, there are fewer tasks, or no such ``illegal_answers``.
        OpenEnvError: There is no such environment, or no such tasks.
    """
    rule = AnswerRule(illegal_answers, illegal_penalty)
    arena = _Arena(environment, sessions, system_prompt, rule)
    rows = [{**(reset or {}), **row} for row in _rows(tasks, num_tasks, seed, arena)]
    samples = [Sample(input=json.dumps(row), id=number, metadata={"task": row}) for number, row in enumerate(rows, 1)]
    return Task(
        dataset=MemoryDataset(samples, name=environment),
        solver=play_episode(arena, max_turns),
        scorer=environment_reward(success_reward),
        metadata={"environment": environment, "illegal_answers": str(rule)},
        # An episode that fails is one without a score; an evaluation fails where half of them do.
        fail_on_error=0.5,
        continue_on_fail=True,
    )


# Inspect names a task after its package only where the distribution has the package's name or lies in site-packages.
if not registry_info(play).name.startswith("openenv/"):
    play = task(name="openenv/play")(play)


class _Arena:
    """One server of an environment for all samples, started when it is needed and ended with the process."""

    def __init__(self, environment: str, count: int, system_prompt: str | None, rule: AnswerRule) -> None:
        self.rule = rule
        # Counts of the answers in each episode that counts, as a line of a collection has them.
        self.answers: list[dict[str, Any]] = []
        self._environment = environment
        self._count = count
        self._system_prompt = system_prompt
        self._sessions: Sessions | None = None
        self._form: ToolForm | None = None
        self._lock = Lock()

    def sessions(self) -> Sessions:
        """Return the environment's sessions, of which each is a sample's."""
        if self._sessions is None:
            own = Sessions.unopened(self._environment, max_sessions=self._count, capacity_wait_s=CAPACITY_WAIT_S)
            self._sessions = own
            atexit.register(self._close)
        return self._sessions

    async def form(self) -> ToolForm:
        """Return how calls of the environment's tools look; the server starts if it has not."""
        async with self._lock:
            if self._form is None:
                self._form = await run_sync(self._read_form)
        return self._form

    def _close(self) -> None:
        """End the server, and show what makes the scores doubtful, after all that Inspect shows."""
        if self._sessions is not None:
            self._sessions.close()
        console = Console(stderr=True)
        for _, text in AnswerCounts.of_lines(self.answers).warnings(self.rule, CALL_REMEDIES):
            console.print(f"warning   {text}", style="yellow", highlight=False, soft_wrap=True, markup=False)

    def _read_form(self) -> ToolForm:
        sessions = self.sessions()
        pixels = wait_for(observed_pixels, sessions.client.async_client)
        prompt = prompt_messages(sessions.goal, self._system_prompt)
        return ToolForm(EnvironmentTools.of(sessions.client), pixels, prompt)


@solver
def play_episode(arena: _Arena, max_turns: int) -> Solver:
    """Play an episode: the model calls tools until the episode ends, or until it calls none."""
    return _Play(arena, max_turns)


class _Play:
    def __init__(self, arena: _Arena, max_turns: int) -> None:
        self._arena = arena
        self._max_turns = max_turns

    async def __call__(self, state: TaskState, generate: Generate) -> TaskState:
        form = await self._arena.form()
        session = await run_sync(self._arena.sessions().client.new_session)
        try:
            task, rule = state.metadata["task"], self._arena.rule
            passed = await run_sync(self._arena.sessions().parameters_of, task)
            play = ToolPlay(task, session, form, max_turns=self._max_turns, parameters=passed, rule=rule)
            await self._play(play, state, form)
        finally:
            await run_sync(session.close)
        episode = play.episode
        if episode.error is not None:
            raise episode.error
        answers = episode.answer_counts
        self._arena.answers.append(answers)
        state.metadata[EPISODE] = {
            "reward": episode.reward,
            "rewards": [turn.reward for turn in episode.turns],
            **answers,
            "done": episode.done,
            "cut_by": episode.cut_by,
        }
        return state

    async def _play(self, play: ToolPlay, state: TaskState, form: ToolForm) -> None:
        await run_sync(play.reset)
        tools = [_tool_info(schema) for schema in form.tools]
        state.messages = list(map(_chat_message, form.opening_messages(play.observation)))
        while not play.is_over:
            state.output = await _answer(state.messages, tools)
            state.messages.append(state.output.message)
            play.episode.cut_answers += state.output.stop_reason == "max_tokens"
            calls = state.output.message.tool_calls or []
            for call in calls:
                shown = await run_sync(play.call, call.function, call.arguments, call.parse_error)
                content = _content(shown)
                state.messages.append(ChatMessageTool(content=content, tool_call_id=call.id, function=call.function))
            if not calls:
                play.act([])


async def _answer(messages: list[ChatMessage], tools: list[ToolInfo]) -> ModelOutput:
    """Request the model's answer, again where Inspect can't read it.

    Raises:
        ModelAnswerError: It could read none of them.
    """
    model = get_model()
    for _ in range(1, _ATTEMPTS):
        with suppress(*_UNREADABLE):
            return await model.generate(messages, tools=tools)
    try:
        return await model.generate(messages, tools=tools)
    except _UNREADABLE as error:
        reason = f"{model.name} gave no answer that can be read, at attempt {_ATTEMPTS}: {error}"
        raise ModelAnswerError(reason) from error


@scorer(
    metrics={
        "reward": [mean(), stderr()],
        "success": [mean(), stderr()],
        "illegal_actions": [mean(), stderr()],
        "no_calls": [mean(), stderr()],
    }
)
def environment_reward(success_reward: float) -> Scorer:
    """Score an episode by the environment's own rewards, beside how many of its calls were illegal."""
    return _Reward(success_reward)


class _Reward:
    def __init__(self, success_reward: float) -> None:
        self._success_reward = success_reward

    async def __call__(self, state: TaskState, target: Target) -> Score:
        episode = state.metadata[EPISODE]
        success = float(reaches(episode["reward"], self._success_reward))
        value = {
            "reward": episode["reward"],
            "success": success,
            "illegal_actions": episode["illegal_actions"],
            "no_calls": float(episode["length"] == 0),
        }
        return Score(value=value, metadata=episode)


def _rows(tasks: int | str, num_tasks: int | None, seed: int, arena: _Arena) -> list[dict[str, Any]]:
    check_number("num_tasks", num_tasks)
    if isinstance(tasks, int):
        check_number("tasks", tasks)
        return [{"seed": each} for each in evaluation_seeds(seed, min(tasks, num_tasks or tasks))]
    return evaluation_tasks(tasks, arena.sessions(), num_tasks, seed=seed, may_be_fewer=False)


def _tool_info(schema: Mapping[str, Any]) -> ToolInfo:
    function = schema["function"]
    parameters = ToolParams.model_validate(_plain_types(function["parameters"]))
    return ToolInfo(name=function["name"], description=function["description"], parameters=parameters)


def _plain_types(schema: Any) -> Any:
    """Write a list of types as alternatives, which is the one way that Inspect knows."""
    if isinstance(schema, list):
        return [_plain_types(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    written = {name: _plain_types(value) for name, value in schema.items()}
    kinds = written.get("type")
    if isinstance(kinds, list):
        del written["type"]
        written["anyOf"] = [{"type": kind} for kind in kinds]
    return written


def _chat_message(message: Message) -> ChatMessage:
    kind = ChatMessageSystem if message["role"] == "system" else ChatMessageUser
    return kind(content=_content(message["content"]))


def _content(shown: ShownContent) -> str | list[Content]:
    (message,) = to_openai([{"role": "user", "content": shown}])
    if isinstance(message["content"], str):
        return message["content"]
    return [_block(block) for block in message["content"]]


def _block(block: Mapping[str, Any]) -> Content:
    if block["type"] == "text":
        return ContentText(text=block["text"])
    return ContentImage(image=block["image_url"]["url"])
