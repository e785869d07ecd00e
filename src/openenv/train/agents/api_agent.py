"""Agent with a model behind any OpenAI-compatible address: of vLLM, Ollama, a provider, a test.

The model acts by calls of tools or by texts, and is passed the pictures in observations.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from openai import AsyncOpenAI

from openenv.adapters.text import ActionText
from openenv.core.client.blocking import background_loop
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, ModelAnswerError, OpenEnvError, ServerCapacityError
from openenv.core.llm_answers import ModelAnswer
from openenv.core.reset_check import has_labels, without_labels
from openenv.core.telemetry import ERROR, EXECUTE_TOOL, INVOKE_AGENT, TOOL, TOOL_CALL, TOOL_TYPE, genai_span
from openenv.core.typed_client import TypedEnvClient
from openenv.core.wire.redaction import remember_secret
from openenv.records.answers import AnswerRule
from openenv.records.prices import TokenPrice
from openenv.train.agents.model_api import request_answer
from openenv.train.episodes.budget import NO_BUDGET, Budget
from openenv.train.episodes.played_episode import NO_USAGE, Message, PlayedEpisode, Usage
from openenv.train.forms.form import Form, prompt_messages
from openenv.train.forms.moves import Move
from openenv.train.forms.text_form import TextForm
from openenv.train.forms.tool_form import ToolForm
from openenv.train.rollout.loop import play_episodes
from openenv.train.rollout.play import Play
from openenv.train.tools.contents import observed_pixels
from openenv.train.tools.environment_tools import EnvironmentTools
from openenv.train.tools.goals import served_goal

if TYPE_CHECKING:
    from openenv.core.env_client import EnvClient
    from openenv.core.sync_client import SyncEnvClient
    from openenv.train.agents.agent import EndedEpisode
    from openenv.train.rollout.sessions import Sessions
    from openenv.train.tasks.task_choice import NumberedTask

    Request = Callable[[list[Message], list[dict[str, Any]]], Awaitable[ModelAnswer | None]]

__all__ = ["ApiAgent"]

logger = logging.getLogger(__name__)

# A warning names the episode that waits for the environment after as long, or half of the time limit of an answer.
_PATIENCE_S = 10.0


class ApiAgent:
    """Agent that plays episodes with a model behind an OpenAI-compatible address, several at once.

    Args:
        model: The model's name there.
        base_url: The address, such as ``http://localhost:8000/v1``; ``None`` for the variable ``OPENAI_BASE_URL``, or
            OpenAI's own.
        api_key: The key; ``None`` for the variable ``OPENAI_API_KEY``. Servers of one's own mostly need none.
        actions: Whether the model acts by calls of tools, or by texts.
        system_prompt: The first message of every conversation; ``None`` for none.
        instructions: How an action is written, where actions are texts; ``None`` for the text of the action's schema.
            The environment's name and description come before it.
        temperature: Temperature of sampling; ``None`` for the server's own.
        max_tokens: Tokens that an answer may have; ``None`` for the server's own limit.
        max_turns: Actions after which an episode is cut off.
        concurrency: Episodes that are played at once, each in a session of its own.
        timeout_s: Seconds to wait for an answer of the model.
        extra_body: Further fields of every request, such as ``{"top_k": 20}`` for vLLM.
        rule: How answers are read, and what an illegal one does.
        budget: Limits of each episode's answers, tokens, seconds and price.
        price: Price of the model's tokens; ``None`` for the one that its server reports.

    Example::

        agent = ApiAgent("Qwen/Qwen3-4B", base_url="http://localhost:8000/v1")
        with openenv.make("wordle", max_sessions=16).sync() as client:
            for played in agent.episodes(client, [{"seed": seed} for seed in range(100)]):
                print(played.index, played.episode.reward)
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        actions: Literal["tools", "text"] = "tools",
        system_prompt: str | None = None,
        instructions: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        max_turns: int = 32,
        concurrency: int = 16,
        timeout_s: float = 600.0,
        extra_body: Mapping[str, Any] | None = None,
        rule: AnswerRule = AnswerRule(),  # noqa: B008  # it can't be changed
        budget: Budget = NO_BUDGET,
        price: TokenPrice | None = None,
    ) -> None:
        if actions not in ("tools", "text"):
            raise ConfigurationError(f"Expected 'tools' or 'text' for actions, got {actions!r}.")
        if concurrency < 1 or max_turns < 1:
            raise ConfigurationError(f"Expected at least 1 episode and 1 turn, got {concurrency} and {max_turns}.")
        self.model = model
        self.actions = actions
        self.system_prompt = system_prompt
        self.instructions = instructions
        self.max_turns = max_turns
        self.concurrency = concurrency
        self.rule = rule
        self.budget = budget
        self.price = price
        # The library insists on a key; servers of one's own ignore it.
        remember_secret(api_key)
        key = api_key if api_key is not None or base_url is None else "none"
        self._address: dict[str, Any] = {"base_url": base_url, "api_key": key, "timeout": timeout_s}
        settings = {"temperature": temperature, "max_tokens": max_tokens, "extra_body": dict(extra_body or {}) or None}
        self._settings = {name: value for name, value in settings.items() if value is not None}

    def episodes(
        self, client: "SyncEnvClient[Any, Any, Any]", tasks: Sequence[Mapping[str, Any]]
    ) -> Iterator[PlayedEpisode]:
        """Play one episode for each task.

        Args:
            client: A client of the environment; as many sessions as ``concurrency`` are opened with it.
            tasks: What the resets are passed.

        Yields:
            The episodes, as they end.

        Raises:
            ConfigurationError: The model's server refuses the request.
            ConnectionFailedError: There is no server of the model, or it is not available, again and again.
        """
        return (played for _, played in self._episodes(client, list(enumerate(tasks)), None))

    def batches(self, tasks: "Sequence[NumberedTask]", sessions: "Sessions") -> "Iterator[list[EndedEpisode]]":
        """Play one episode for each task in a session of its own, and yield each as it ends, under its number.

        Args:
            tasks: The tasks with the episodes' numbers.
            sessions: The environment; as many further sessions as ``concurrency`` are opened.

        Raises:
            ConfigurationError: The model's server refuses the request.
            ConnectionFailedError: There is no server of the model, or it is not available, again and again.
        """
        return ([ended] for ended in self._episodes(sessions.client, tasks, sessions.goal))

    def _episodes(
        self, client: "SyncEnvClient[Any, Any, Any]", tasks: "Sequence[NumberedTask]", goal: str | None
    ) -> "Iterator[EndedEpisode]":
        offered: EnvironmentTools | ActionText
        if self.actions == "tools":
            offered = EnvironmentTools.of(client)
        else:
            offered = ActionText(_action_of(client), self.rule.fallback, lenient=self.rule.lenient)
        loop = background_loop()
        ending = self._ending(client.async_client, tasks, offered, goal)
        try:
            while (ended := loop.run(_next_of(ending))) is not None:
                yield ended
        finally:
            loop.run(_close(ending))

    async def _ending(
        self,
        client: "EnvClient[Any, Any, Any]",
        tasks: "Sequence[NumberedTask]",
        offered: EnvironmentTools | ActionText,
        goal: str | None,
    ) -> "AsyncIterator[EndedEpisode]":
        """Play one episode for each task in concurrent workers, and yield each as it ends."""
        todo = iter(tasks)
        ended: asyncio.Queue[EndedEpisode | BaseException] = asyncio.Queue()
        count = min(self.concurrency, len(tasks))
        await client._started()
        form = await self._form(client, offered, await served_goal(client) if goal is None else goal)
        schema = (await client.schemas()).get("reset") if any(has_labels(task) for _, task in tasks) else None
        async with AsyncOpenAI(**self._address) as api:
            request = partial(request_answer, api, self.model, self._settings)
            workers = [
                asyncio.create_task(self._work(number, client, request, form, schema, todo, ended))
                for number in range(count)
            ]
            try:
                for _ in tasks:
                    episode = await ended.get()
                    if isinstance(episode, BaseException):
                        raise episode
                    yield episode
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    async def _work(
        self,
        number: int,
        client: "EnvClient[Any, Any, Any]",
        request: "Request",
        form: Form,
        schema: Mapping[str, Any] | None,
        todo: "Iterator[NumberedTask]",
        ended: "asyncio.Queue[EndedEpisode | BaseException]",
    ) -> None:
        """Play one episode after another in a session, which is the client's own for the first worker."""
        try:
            try:
                session = client if number == 0 else await client.new_session()
            except ServerCapacityError:
                return  # the first worker plays, and as many others as the server has sessions for
            try:
                for index, task in todo:
                    conversation = _Conversation(request, form, self.price)
                    play = Play(
                        task,
                        max_turns=self.max_turns,
                        shown=form.shown,
                        parameters=without_labels(schema, task),
                        rule=self.rule,
                        budget=self.budget,
                    )
                    played_session = _PatientSession(session, partial(conversation.call_of, play))
                    with genai_span(INVOKE_AGENT, self.model, self._about, task.get("episode_id")):
                        await play_episodes(conversation, [play], played_session)
                    ended.put_nowait((play, conversation.played(index, play)))
            finally:
                await (session.disconnect() if session is client else session.close())
        except Exception as error:  # noqa: BLE001  # raised where the episodes are waited for
            ended.put_nowait(error)

    @property
    def _about(self) -> dict[str, Any]:
        return {"gen_ai.provider.name": "openai", "gen_ai.request.model": self.model}

    async def _form(
        self, client: "EnvClient[Any, Any, Any]", offered: EnvironmentTools | ActionText, goal: str
    ) -> Form:
        """Return the form of results and actions."""
        pixels = await observed_pixels(client)
        prompt = prompt_messages(goal, self.system_prompt)
        if isinstance(offered, EnvironmentTools):
            return ToolForm(offered, pixels, prompt)
        instructions = offered.instructions() if self.instructions is None else self.instructions
        return TextForm(offered, instructions, pixels, prompt)


class _PatientSession:
    """Session of an episode that is played alone, which logs a warning where the environment is slow."""

    def __init__(self, session: "EnvClient[Any, Any, Any]", call: Callable[[], tuple[str, str] | None]) -> None:
        self._session = session
        self._call = call
        self._task: Mapping[str, Any] = {}

    async def reset(self, tasks: Sequence[Mapping[str, Any]]) -> list[StepResult[Any] | OpenEnvError]:
        """Start the episode of the one task."""
        (self._task,) = tasks
        return [await self._answer(self._session.reset(**self._task))]

    async def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult[Any] | OpenEnvError]:
        """Step with the action, if there is one."""
        return {number: await self._step(action) for number, action in actions.items()}

    async def _step(self, action: Any) -> StepResult[Any] | OpenEnvError:
        call = self._call()
        if call is None:
            return await self._answer(self._session.step(action))
        number, name = call
        attributes = {TOOL: name, TOOL_TYPE: "function", TOOL_CALL: number}
        with genai_span(EXECUTE_TOOL, name, attributes) as found:
            result = await self._answer(self._session.step(action))
            if isinstance(result, OpenEnvError):
                found[ERROR] = type(result).__name__
        return result

    async def _answer(self, answer: Awaitable[StepResult[Any]]) -> StepResult[Any] | OpenEnvError:
        limit_s = self._session.message_timeout_s
        patience_s = _PATIENCE_S if limit_s is None else min(_PATIENCE_S, limit_s / 2)
        limit = "" if limit_s is None else f", which may take {limit_s:g} s"
        sentence = "waiting for the environment's answer for %g s now%s: episode with %s"
        loop = asyncio.get_running_loop()
        reminder = loop.call_later(patience_s, logger.warning, sentence, patience_s, limit, self._task)
        try:
            return await answer
        except OpenEnvError as error:
            return error
        finally:
            reminder.cancel()


class _Conversation:
    """Actor with a model in one episode, which writes the conversation."""

    def __init__(self, request: "Request", form: Form, price: TokenPrice | None) -> None:
        self._request = request
        self._form = form
        self._price = price

    def begin(self, plays: Sequence[Play]) -> None:
        """Write the first messages; after a reset that failed, without an observation."""
        (play,) = plays
        play.usage = NO_USAGE
        play.messages = self._form.opening_messages(None if play.first is None else play.observation)

    async def act(self, plays: Sequence[Play]) -> list[list[Move]]:
        """Request the model's answer; there is none where the conversation or the time is too long, or it failed."""
        (play,) = plays
        assert play.usage is not None
        try:
            async with asyncio.timeout(play.seconds_left):
                found = await self._request(play.messages, self._form.tools)
        except TimeoutError:
            play.cut("max_seconds")
            play.usage = replace(play.usage, cost_usd=None)  # an answer under way may cost
            return [[]]
        except ModelAnswerError as error:
            play.fail(error)
            return [[]]
        if found is None:
            play.cut("max_context")
            return [[]]
        play.episode.cut_answers += found.finish_reason == "length"
        tokens = (found.input_tokens, found.output_tokens)
        cost_usd = found.cost_usd if self._price is None else self._price.of(*tokens)
        play.usage += Usage(*tokens, cost_usd, found.model)
        answer = found.message(with_calls=bool(self._form.tools))
        play.messages.append(answer)
        return [self._form.read(answer)]

    def see(self, plays: Sequence[Play]) -> None:
        """Append the results of the answer."""
        (play,) = plays
        play.append_replies(self._form)

    def call_of(self, play: Play) -> tuple[str, str] | None:
        """Return id and name of the tool call that is done now; ``None`` where actions are texts."""
        calls = play.messages[-1].get("tool_calls")
        if not calls:
            return None
        call = calls[len(play.answered)]
        return call["id"], call["function"]["name"]

    def played(self, index: int, play: Play) -> PlayedEpisode:
        """Return the episode under its number, with the conversation."""
        return PlayedEpisode(index, play.episode, play.messages, self._form.tools, play.usage)


def _action_of(client: "SyncEnvClient[Any, Any, Any]") -> Any:
    """Return the class of the environment's actions, or their schema where the client has none."""
    own = client.async_client
    return own.action_class if isinstance(own, TypedEnvClient) else client.schemas()["action"]


async def _next_of(ending: "AsyncIterator[EndedEpisode]") -> "EndedEpisode | None":
    return await anext(ending, None)


async def _close(ending: Any) -> None:
    await ending.aclose()
