"""Episodes that a model plays behind any OpenAI-compatible address: of vLLM, Ollama, a provider, a test.

The model acts by calls of tools, in the API's own form, or by texts. Pictures in observations are passed on.
"""

import asyncio
import base64
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, BadRequestError

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client.blocking import background_loop
from openenv.core.client_types import StepResult
from openenv.core.documents import read_arguments
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    OpenEnvError,
    ServerCapacityError,
)
from openenv.core.telemetry import (
    CHAT,
    ERROR,
    EXECUTE_TOOL,
    INVOKE_AGENT,
    TOOL,
    TOOL_CALL,
    TOOL_TYPE,
    chat_request,
    genai_span,
    openai_answer,
)
from openenv.core.typed_client import TypedEnvClient
from openenv.core.wire.redaction import remember_secret
from openenv.train.episodes.played_episode import Message, PlayedEpisode, Usage
from openenv.train.rollout.loop import play_episodes
from openenv.train.rollout.play import Move, Play, text_move, tool_move
from openenv.train.rollout.renderer import first_content, next_content
from openenv.train.rollout.tool_play import EPISODE_FAILED, EPISODE_OVER, result_content
from openenv.train.tools.contents import call_content, observed_pixels
from openenv.train.tools.environment_tools import EnvironmentTools

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionMessage

    from openenv.core.env_client import EnvClient
    from openenv.core.sync_client import SyncEnvClient
    from openenv.train.agents.agent import EndedEpisode
    from openenv.train.spec.sessions import Sessions
    from openenv.train.tasks.task_choice import NumberedTask

__all__ = ["ApiAgent", "PlayedEpisode", "to_openai"]

logger = logging.getLogger(__name__)

# The log says which episode waits for the environment after as long, or half of the time that an answer may take.
_PATIENCE_S = 10.0

Content = str | list[dict[str, Any]]


class ApiAgent:
    """Plays episodes with a model behind an OpenAI-compatible address, several at once.

    Args:
        model: The model's name there.
        base_url: The address, such as ``http://localhost:8000/v1``; ``None`` for the variable ``OPENAI_BASE_URL``, or
            OpenAI's own.
        api_key: The key; ``None`` for the variable ``OPENAI_API_KEY``. Servers of one's own mostly ask for none.
        actions: Whether the model acts by calls of tools, or by texts.
        system_prompt: The first message of every conversation; ``None`` for none.
        instructions: How an action is written, where actions are texts; ``None`` for what the action's schema says.
        temperature: Of sampling; ``None`` for the server's own.
        max_tokens: Tokens that an answer may have; ``None`` for the server's own limit.
        max_turns: Actions after which an episode is cut off.
        concurrency: Episodes that are played at once, each in a session of its own.
        timeout_s: Seconds to wait for an answer of the model.
        extra_body: Further fields of every request, such as ``{"top_k": 20}`` for vLLM.

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
            ConnectionFailedError: There is no server of the model, or it fails again and again.
        """
        return (played for _, played in self._episodes(client, list(enumerate(tasks))))

    def batches(self, tasks: "Sequence[NumberedTask]", sessions: "Sessions") -> "Iterator[list[EndedEpisode]]":
        """Play one episode for each task in a session of its own, and yield each as it ends, under its number.

        Args:
            tasks: The tasks with the episodes' numbers.
            sessions: The environment; as many further sessions as ``concurrency`` are opened.

        Raises:
            OpenEnvError: As `episodes`.
        """
        return ([ended] for ended in self._episodes(sessions.client, tasks))

    def _episodes(
        self, client: "SyncEnvClient[Any, Any, Any]", tasks: "Sequence[NumberedTask]"
    ) -> "Iterator[EndedEpisode]":
        offered = EnvironmentTools.of(client) if self.actions == "tools" else ActionText(_action_of(client))
        loop = background_loop()
        ending = self._ending(client.async_client, tasks, offered)
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
    ) -> "AsyncIterator[EndedEpisode]":
        """Play one episode for each task, and yield each as it ends."""
        todo = iter(tasks)
        ended: asyncio.Queue[EndedEpisode | BaseException] = asyncio.Queue()
        count = min(self.concurrency, len(tasks))
        await client._started()
        contents = _Contents(await observed_pixels(client))
        async with AsyncOpenAI(**self._address) as api:
            begin = partial(self._conversation, _Model(api, self.model, self._settings), offered, contents)
            workers = [asyncio.create_task(self._work(number, client, begin, todo, ended)) for number in range(count)]
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
        begin: "Callable[[], _Conversation]",
        todo: "Iterator[NumberedTask]",
        ended: "asyncio.Queue[EndedEpisode | BaseException]",
    ) -> None:
        """Play one episode after another in a session; the first worker's is the client's own."""
        try:
            try:
                session = client if number == 0 else await client.new_session()
            except ServerCapacityError:
                return  # the first worker plays, and as many others as the server has sessions for
            try:
                for index, task in todo:
                    conversation = begin()
                    play = Play(task, max_turns=self.max_turns, shown=conversation.contents.text)
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

    def _conversation(
        self, model: "_Model", offered: EnvironmentTools | ActionText, contents: "_Contents"
    ) -> "_Conversation":
        system: list[Message] = []
        if self.system_prompt is not None:
            system = [{"role": "system", "content": self.system_prompt}]
        if isinstance(offered, EnvironmentTools):
            return _ToolConversation(model, contents, system, offered)
        instructions = offered.instructions() if self.instructions is None else self.instructions
        return _TextConversation(model, contents, system, offered, instructions)


class _Model:
    """A model behind an address."""

    def __init__(self, api: AsyncOpenAI, name: str, settings: Mapping[str, Any]) -> None:
        self._api = api
        self._name = name
        self._settings = settings

    async def answer(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> "ChatCompletion | None":
        """Return the model's answer; ``None`` where the conversation has grown too long for it."""
        offered: Any = {"tools": tools} if tools else {}
        sent: Any = to_openai(messages)
        completion: ChatCompletion
        try:
            with genai_span(CHAT, self._name, self._request(sent)) as found:
                completion = await self._api.chat.completions.create(
                    model=self._name, messages=sent, **offered, **self._settings
                )
                found.update(openai_answer(completion))
        except BadRequestError as error:
            if any(message["role"] == "assistant" for message in messages):
                return None  # what it took before it takes no more: the conversation is too long
            raise ConfigurationError(f"The server of {self._name} refuses the request: {error.message}") from error
        except APIConnectionError as error:
            raise ConnectionFailedError(f"There is no answer from {self._api.base_url}: {error.message}") from error
        except APIStatusError as error:
            kind = ConfigurationError if error.status_code in (401, 403, 404, 422) else ConnectionFailedError
            raise kind(f"The server of {self._name} at {self._api.base_url} answers: {error.message}") from error
        return completion

    def _request(self, messages: Sequence[Message]) -> dict[str, Any]:
        return chat_request("openai", self._name, str(self._api.base_url), messages, self._settings)


class _PatientSession:
    """The session of an episode that is played alone; the log says so where its environment takes long.

    Args:
        session: The session.
        call: Returns id and name of the tool call that is done now; ``None`` where actions are texts.
    """

    def __init__(self, session: "EnvClient[Any, Any, Any]", call: Callable[[], tuple[str, str] | None]) -> None:
        self._session = session
        self._call = call
        self._task: Mapping[str, Any] = {}

    async def reset(self, tasks: Sequence[Mapping[str, Any]]) -> list[StepResult[Any] | OpenEnvError]:
        """Start the episode."""
        (self._task,) = tasks
        return [await self._answer(self._session.reset(**self._task))]

    async def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult[Any] | OpenEnvError]:
        """Do the action, if there is one."""
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


class _Contents:
    """What the model is shown of an environment's results.

    Attributes:
        pixels: The fields of observations that are declared as the pixels of a picture.
    """

    def __init__(self, pixels: Collection[str]) -> None:
        self.pixels = pixels

    def whole(self, result: StepResult[Any]) -> Content:
        """Return the text and the pictures."""
        return call_content(result, self.pixels)

    def text(self, result: StepResult[Any]) -> str:
        """Return the observation's text, without its pictures."""
        content = self.whole(result)
        if isinstance(content, str):
            return observation_text(result.observation)
        return "\n".join(block["text"] for block in content if block["type"] == "text")

    def pictures(self, result: StepResult[Any]) -> list[dict[str, Any]]:
        """Return the pictures, as blocks."""
        content = self.whole(result)
        return [] if isinstance(content, str) else [block for block in content if block["type"] == "image"]


class _Conversation(ABC):
    """A model as an agent in one episode.

    Attributes:
        contents: What the model is shown of results.
        messages: The conversation so far.
        tools: The tools that are offered; empty where actions are texts.
    """

    def __init__(
        self, model: _Model, contents: "_Contents", messages: list[Message], tools: list[dict[str, Any]]
    ) -> None:
        self._model = model
        self.contents = contents
        self.messages = messages
        self.tools = tools
        self._usage = Usage()

    def begin(self, plays: Sequence[Play]) -> None:
        """Write the first message, unless the reset failed."""
        (play,) = plays
        if play.first is not None:
            self.messages.append({"role": "user", "content": self._opening(play, play.first)})

    async def act(self, plays: Sequence[Play]) -> list[list[Move]]:
        """Request the model's answer; there is none where the conversation has grown too long for it."""
        completion = await self._model.answer(self.messages, self.tools)
        if completion is None:
            return [[]]
        self._usage += _usage_of(completion)
        return [self._read(completion.choices[0].message)]

    def see(self, plays: Sequence[Play]) -> None:
        """Write what came of the answer."""
        (play,) = plays
        self._write(play)

    def played(self, index: int, play: Play) -> PlayedEpisode:
        """Return the episode, with the conversation.

        Args:
            index: Its number.
            play: What happened.
        """
        return PlayedEpisode(index, play.episode, self.messages, self.tools, self._usage)

    def call_of(self, play: Play) -> tuple[str, str] | None:
        """Return id and name of the tool call that is done now; ``None`` where actions are texts."""
        return None

    @abstractmethod
    def _opening(self, play: Play, result: StepResult[Any]) -> Content:
        """Return what the user says first."""

    @abstractmethod
    def _read(self, message: "ChatCompletionMessage") -> list[Move]:
        """Return the moves in the model's answer, which goes into the conversation."""

    @abstractmethod
    def _write(self, play: Play) -> None:
        """Write what came of the moves into the conversation."""


class _ToolConversation(_Conversation):
    """The model calls tools; an answer without a call ends the episode, as it does in TRL's own loop."""

    def __init__(self, model: _Model, contents: "_Contents", messages: list[Message], tools: EnvironmentTools) -> None:
        super().__init__(model, contents, messages, tools.schemas())
        self._offered = tools
        self._calls: list[tuple[str, str]] = []

    def call_of(self, play: Play) -> tuple[str, str] | None:
        """See ``_Conversation``."""
        return self._calls[len(play.answered)]

    def _opening(self, play: Play, result: StepResult[Any]) -> Content:
        return self.contents.whole(result)

    def _read(self, message: "ChatCompletionMessage") -> list[Move]:
        calls = [call for call in message.tool_calls or [] if call.type == "function"]
        read = [(call.id, call.function.name, read_arguments(call.function.arguments)) for call in calls]
        said: Message = {"role": "assistant", "content": message.content or ""}
        if read:
            said["tool_calls"] = [
                {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}
                for number, name, arguments in read
            ]
        self.messages.append(said)
        self._calls = [(number, name) for number, name, _ in read]
        return [tool_move(self._offered, name, arguments) for _, name, arguments in read]

    def _write(self, play: Play) -> None:
        contents: list[Content] = [result_content(result, self.contents.pixels) for result in play.answered]
        if play.episode.error is not None:
            contents.append(EPISODE_FAILED)
        # Calls behind the one that ended the episode are not done.
        contents += [EPISODE_OVER] * (len(self._calls) - len(contents))
        for (number, name), content in zip(self._calls, contents, strict=False):
            self.messages.append({"role": "tool", "tool_call_id": number, "name": name, "content": content})
        self._calls = []


class _TextConversation(_Conversation):
    """The model writes its actions as text."""

    def __init__(
        self, model: _Model, contents: "_Contents", messages: list[Message], actions: ActionText, instructions: str
    ) -> None:
        super().__init__(model, contents, messages, [])
        self._actions = actions
        self._instructions = instructions
        self._pictures: list[dict[str, Any]] = []

    def _opening(self, play: Play, result: StepResult[Any]) -> Content:
        self._pictures = self.contents.pictures(result)
        return _joined(self._pictures, first_content(self._instructions, play.observation))

    def _read(self, message: "ChatCompletionMessage") -> list[Move]:
        text = message.content or ""
        self.messages.append({"role": "assistant", "content": text})
        return [text_move(self._actions, text)]

    def _write(self, play: Play) -> None:
        for result in play.answered:
            if result.result is not None:
                self._pictures = self.contents.pictures(result.result)
            content = _joined(self._pictures, next_content(result.observation, result.problem))
            self.messages.append({"role": "user", "content": content})


def to_openai(messages: Sequence[Message]) -> list[Message]:
    """Write a conversation as the API takes it.

    Args:
        messages: A conversation as chat templates take it: a tool call's arguments are a mapping, and a picture is a
            block of the content.

    Returns:
        The same with arguments as JSON, and pictures as ``image_url``. The pictures of a tool's answer follow it in a
        message of the user, because the API takes none there.

    Example:
        >>> to_openai([{"role": "user", "content": [{"type": "text", "text": "left?"}]}])
        [{'role': 'user', 'content': [{'type': 'text', 'text': 'left?'}]}]
    """
    written: list[Message] = []
    pictures: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] != "tool" and pictures:
            written.append({"role": "user", "content": pictures})
            pictures = []
        if message["role"] == "tool":
            blocks = _blocks(message["content"])
            pictures += [block for block in blocks if block["type"] != "text"]
            text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
            written.append({**message, "content": text})
        else:
            written.append(_written(message))
    return [*written, {"role": "user", "content": pictures}] if pictures else written


def _written(message: Message) -> Message:
    content = message["content"]
    written = {**message, "content": content if isinstance(content, str) else _blocks(content)}
    if "tool_calls" in message:
        written["tool_calls"] = [_written_call(call) for call in message["tool_calls"]]
    return written


def _written_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    # What was no JSON at all would make some servers refuse the whole conversation.
    return {**call, "function": {**function, "arguments": json.dumps(_as_object(arguments))}}


def _blocks(content: Content) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_picture_block(block["image"]) if block["type"] == "image" else block for block in content]


def _picture_block(picture: Any) -> dict[str, Any]:
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def _usage_of(completion: "ChatCompletion") -> Usage:
    usage = completion.usage
    if usage is None:
        return Usage(model_version=completion.model)
    cost = (usage.model_extra or {}).get("cost")  # no field of OpenAI's; OpenRouter and LiteLLM have it
    known = float(cost) if isinstance(cost, int | float) else None
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, known, completion.model)


def _as_object(arguments: Any) -> Mapping[str, Any]:
    return arguments if isinstance(arguments, Mapping) else {}


def _joined(pictures: list[dict[str, Any]], text: str) -> Content:
    return [*pictures, {"type": "text", "text": text}] if pictures else text


def _action_of(client: "SyncEnvClient[Any, Any, Any]") -> Any:
    """Return the class of the environment's actions, or their schema where the client has none."""
    own = client.async_client
    return own.action_class if isinstance(own, TypedEnvClient) else client.schemas()["action"]


async def _next_of(ending: "AsyncIterator[EndedEpisode]") -> "EndedEpisode | None":
    return await anext(ending, None)


async def _close(ending: Any) -> None:
    await ending.aclose()
