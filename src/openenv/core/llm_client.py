"""Clients of language models behind an address: OpenAI-compatible servers and Anthropic's, on the vendors' packages.

The extra ``llm`` brings both packages.
"""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit
from weakref import finalize

from openenv._extras import install_command
from openenv.core.background_loop import background_loop
from openenv.core.documents import read_arguments
from openenv.core.exceptions import ConfigurationError
from openenv.core.llm_answers import RemoteModel
from openenv.core.variables import model_api_key
from openenv.core.wire.redaction import remember_secret

try:
    from openai import AsyncOpenAI
except ImportError:  # named when a client is made
    AsyncOpenAI = None  # type: ignore[assignment,misc]

__all__ = [
    "AnthropicClient",
    "LLMClient",
    "LLMResponse",
    "OpenAIClient",
    "TokenUsage",
    "ToolCall",
    "create_llm_client",
    "model_client",
]

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}, "required": []}
# A process may have 1,024 files open by default, and needs others beside these connections.
_AT_ONCE = 256
# For servers without keys; both packages refuse to go without one.
_NO_KEY = "not-needed"
# Beginnings of the names of OpenAI's models that reason: their limit of tokens has another name, and they have no
# temperature.
_REASONING_MODELS = re.compile(r"o\d|gpt-(?:[5-9]|\d\d)")


@dataclass
class ToolCall:
    """Call of a tool in a model's answer.

    Attributes:
        id: Id of the call, which the result has to name.
        name: Name of the tool.
        args: Arguments by name.
        problem: Why the arguments could not be read, for the model, which has to call again; ``args`` is empty then.
    """

    id: str
    name: str
    args: dict[str, Any]
    problem: str | None = None

    @classmethod
    def of(cls, number: str, name: str, written: Any) -> Self:
        """Return a call of a model's answer, whatever the model wrote for the arguments.

        Args:
            number: Id of the call.
            name: Name of the tool.
            written: The arguments, as `read_arguments` has them.

        Example:
            >>> ToolCall.of("1", "add", "[1]").problem
            "Expected the arguments as an object of JSON, got '[1]'."
        """
        arguments = read_arguments(written)
        if isinstance(arguments, dict):
            return cls(number, name, arguments)
        return cls(number, name, {}, f"Expected the arguments as an object of JSON, got {written!r:.100}.")


@dataclass(frozen=True)
class TokenUsage:
    """Tokens of a completion, or of several.

    Attributes:
        input_tokens: Tokens of the prompt.
        output_tokens: Tokens of the answer.

    Example:
        >>> TokenUsage(10, 5) + TokenUsage(20, 5)
        TokenUsage(input_tokens=30, output_tokens=10)
    """

    input_tokens: int
    output_tokens: int

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        """Return the sum."""
        return TokenUsage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass
class LLMResponse:
    """Answer of a model.

    Attributes:
        content: The text.
        tool_calls: Calls of tools.
        usage: Tokens, where the server counts them.
        cost_usd: Their cost in US dollars, where the server reports it or the client has prices.
    """

    content: str
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: TokenUsage | None = None
    cost_usd: float | None = None

    def to_message_dict(self) -> dict[str, Any]:
        """Return the answer as a message of OpenAI's form."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.args)}}
                for call in self.tool_calls
            ]
        return message


class LLMClient(ABC):
    """Client of a language model. Subclasses define ``complete``.

    Args:
        endpoint: Address of the service, with its port or without: ``http://localhost``, ``https://example.com/models``.
        port: Port of the service; ``None`` for that of the endpoint, or else that of its scheme.
    """

    def __init__(self, endpoint: str, port: int | None) -> None:
        self.endpoint = endpoint
        self.port = port

    @property
    def base_url(self) -> str:
        """The endpoint with its port.

        Raises:
            ValueError: The endpoint is no address of a service, or has another port.
        """
        return _with_port(self.endpoint, self.port)

    @property
    def identity(self) -> dict[str, Any]:
        """What an answer depends on beside the prompt, for caches: the class, and the attributes that are public."""
        public = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return {"class": type(self).__qualname__, **public}

    @abstractmethod
    async def complete(self, prompt: str, **kwargs: Any) -> str:
        """Return the model's answer to a prompt.

        Args:
            prompt: The prompt.
            **kwargs: ``temperature`` and ``max_tokens`` in place of the client's.
        """

    async def respond(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Return the model's answer to a prompt with its number of tokens, where the client knows that.

        Args:
            prompt: The prompt.
            **kwargs: As for ``complete``.
        """
        return LLMResponse(await self.complete(prompt, **kwargs))

    async def complete_with_tools(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], **kwargs: Any
    ) -> LLMResponse:
        """Return the model's answer to a conversation with tools.

        Args:
            messages: Messages of OpenAI's form.
            tools: Tools as MCP lists them.
            **kwargs: As for ``complete``.

        Raises:
            NotImplementedError: The client can't do this.
        """
        raise NotImplementedError(f"{type(self).__name__} does not support tool calling")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the client itself: a copy of an environment, as for a fork, uses the same connections."""
        return self


class _VendorClient(LLMClient):
    """Client on a vendor's package. Subclasses make ``_client`` and define ``respond`` and ``complete_with_tools``."""

    _provider: ClassVar[Literal["openai", "anthropic"]]
    _client: Any

    def __init__(
        self,
        endpoint: str,
        port: int | None,
        model: str,
        api_key: str | None,
        system_prompt: str | None,
        temperature: float,
        max_tokens: int,
        max_retries: int,
        at_once: int,
    ) -> None:
        super().__init__(endpoint, port)
        self._requests = _Requests(at_once)
        remember_secret(api_key)
        self.model = model
        self.system_prompt = system_prompt
        self.temperature = temperature
        self.max_tokens = max_tokens
        self._retries = max_retries

    async def complete(self, prompt: str, **kwargs: Any) -> str:
        """Return the model's answer to a prompt."""
        return (await self.respond(prompt, **kwargs)).content

    async def _request(
        self, send: Callable[[], Awaitable[Any]], messages: list[dict[str, Any]], settings: Mapping[str, Any]
    ) -> LLMResponse:
        """Return an answer with its tokens, if the server counts them."""
        model = RemoteModel(self._provider, self.model, self.base_url, self._retries)
        answer = await model.answer(partial(self._requests.send, send), messages, settings)
        before, after = answer.input_tokens, answer.output_tokens
        usage = None if before is None or after is None else TokenUsage(before, after)
        return LLMResponse(answer.text, [ToolCall.of(*call) for call in answer.calls], usage, answer.cost_usd)


class OpenAIClient(_VendorClient):
    """Client of an OpenAI-compatible server: OpenAI, vLLM, TGI, Ollama and others.

    Args:
        endpoint: Address of the service, with the path of its API; without a path, that is ``/v1``.
        port: Port of the service; ``None`` for that of the endpoint, or else that of its scheme.
        model: Name of the model.
        api_key: Key, for servers that need one.
        system_prompt: System message of every prompt.
        temperature: Temperature.
        max_tokens: Longest answer in tokens.
        use_max_completion_tokens: Whether the model is one of OpenAI's that reason, whose limit has this name and which
            have no temperature.
        timeout_s: Seconds that each attempt may take.
        max_retries: How often a request is repeated that was lost, refused for now (429), met an error of the server,
            or had an answer that can't be read.
        at_once: Requests that may be under way at the same time, each on a connection; others wait for their turn.

    Raises:
        ImportError: The package ``openai`` is not installed.
        ValueError: ``at_once`` is below 1.
    """

    _provider = "openai"

    def __init__(
        self,
        endpoint: str,
        port: int | None,
        model: str,
        api_key: str | None = None,
        system_prompt: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 256,
        use_max_completion_tokens: bool = False,
        timeout_s: float = 120.0,
        max_retries: int = 2,
        at_once: int = _AT_ONCE,
    ) -> None:
        super().__init__(endpoint, port, model, api_key, system_prompt, temperature, max_tokens, max_retries, at_once)
        if AsyncOpenAI is None:
            raise ImportError(f"OpenAIClient needs the package openai: {install_command('llm')}")
        self._reasons = use_max_completion_tokens
        self._client = AsyncOpenAI(
            base_url=self.base_url if urlsplit(self.base_url).path else f"{self.base_url}/v1",
            api_key=_NO_KEY if api_key is None else api_key,
            timeout=timeout_s,
            max_retries=max_retries,
        )
        finalize(self, _close, self._client).atexit = False

    async def respond(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Return the model's answer to a prompt with its number of tokens."""
        system = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        return await self._answer([*system, {"role": "user", "content": prompt}], kwargs)

    async def complete_with_tools(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], **kwargs: Any
    ) -> LLMResponse:
        """Return the model's answer to a conversation with tools."""
        functions = [{"type": "function", "function": _function(tool, "parameters")} for tool in tools]
        return await self._answer(messages, kwargs, **({"tools": functions} if functions else {}))

    async def _answer(self, messages: list[dict[str, Any]], options: Mapping[str, Any], **more: Any) -> LLMResponse:
        limit = options.get("max_tokens", self.max_tokens)
        if self._reasons:
            more["max_completion_tokens"] = limit
        else:
            more |= {"max_tokens": limit, "temperature": options.get("temperature", self.temperature)}
        create: Callable[..., Awaitable[Any]] = self._client.chat.completions.create
        settings = {"temperature": more.get("temperature"), "max_tokens": limit}
        return await self._request(partial(create, model=self.model, messages=messages, **more), messages, settings)


class AnthropicClient(_VendorClient):
    """Client of Anthropic's Messages API.

    Args:
        endpoint: Scheme and host.
        port: Port of the service; ``None`` for that of the endpoint, or else that of its scheme.
        model: Name of the model.
        api_key: Key.
        system_prompt: System prompt of every prompt.
        temperature: Temperature.
        max_tokens: Longest answer in tokens.
        timeout_s: As for `OpenAIClient`.
        max_retries: As for `OpenAIClient`.
        at_once: As for `OpenAIClient`.

    Raises:
        ImportError: The package ``anthropic`` is not installed.
        ValueError: ``at_once`` is below 1.
    """

    _provider = "anthropic"

    def __init__(
        self,
        endpoint: str,
        port: int | None,
        model: str,
        api_key: str | None = None,
        system_prompt: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 256,
        timeout_s: float = 120.0,
        max_retries: int = 2,
        at_once: int = _AT_ONCE,
    ) -> None:
        super().__init__(endpoint, port, model, api_key, system_prompt, temperature, max_tokens, max_retries, at_once)
        try:
            from anthropic import AsyncAnthropic
        except ImportError as error:
            raise ImportError(f"AnthropicClient needs the package anthropic: {install_command('llm')}") from error
        self._client = AsyncAnthropic(
            base_url=self.base_url,
            api_key=_NO_KEY if api_key is None else api_key,
            timeout=timeout_s,
            max_retries=max_retries,
        )
        finalize(self, _close, self._client).atexit = False

    async def respond(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Return the model's answer to a prompt with its number of tokens."""
        return await self._answer([{"role": "user", "content": prompt}], self.system_prompt, kwargs)

    async def complete_with_tools(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], **kwargs: Any
    ) -> LLMResponse:
        """Return the model's answer to a conversation with tools."""
        system, conversation = _as_anthropic_messages(messages)
        listed = [_function(tool, "input_schema") for tool in tools]
        return await self._answer(
            conversation, system or self.system_prompt, kwargs, **({"tools": listed} if listed else {})
        )

    async def _answer(
        self, messages: list[dict[str, Any]], system: str | None, options: Mapping[str, Any], **more: Any
    ) -> LLMResponse:
        if system:
            more["system"] = system
        create: Callable[..., Awaitable[Any]] = self._client.messages.create
        limit, temperature = options.get("max_tokens", self.max_tokens), options.get("temperature", self.temperature)
        request = partial(
            create,
            model=self.model,
            messages=messages,
            max_tokens=limit,
            # Not a parameter of newer versions of the package, and still one of the API.
            extra_body={"temperature": temperature},
            **more,
        )
        settings = {"temperature": temperature, "max_tokens": limit}
        return await self._request(request, messages, settings)


def create_llm_client(
    provider: str,
    model: str,
    api_key: str,
    *,
    system_prompt: str | None = None,
    temperature: float = 0.0,
    max_tokens: int = 4096,
) -> LLMClient:
    """Make a client of a vendor's own service.

    Args:
        provider: ``openai`` or ``anthropic``.
        model: Name of the model.
        api_key: Key.
        system_prompt: System prompt of every prompt.
        temperature: Temperature; not for models that reason.
        max_tokens: Longest answer in tokens.

    Raises:
        ValueError: The provider is another one.
    """
    options: dict[str, Any] = {"system_prompt": system_prompt, "temperature": temperature, "max_tokens": max_tokens}
    match provider.lower():
        case "openai":
            if _REASONING_MODELS.match(model):
                options["use_max_completion_tokens"] = True
            return OpenAIClient("https://api.openai.com", 443, model, api_key=api_key, **options)
        case "anthropic":
            return AnthropicClient("https://api.anthropic.com", 443, model, api_key=api_key, **options)
    raise ValueError(f"Unsupported provider: {provider!r}; expected 'openai' or 'anthropic'.")


def model_client(model: str, *, temperature: float = 0.0, max_tokens: int = 4096) -> LLMClient:
    """Make a client of a model that is written with its address, as in settings: ``NAME@URL``.

    The key is that of the variable ``OPENAI_API_KEY``, or ``ANTHROPIC_API_KEY`` for Anthropic's own service, if any.

    Args:
        model: The model's name and the address of its API, as in ``Qwen/Qwen3-8B@http://localhost:8000/v1``.
        temperature: Temperature; not for models of OpenAI's own service that reason.
        max_tokens: Longest answer in tokens.

    Raises:
        ConfigurationError: It has another form.
        ImportError: The vendor's package is not installed.

    Example:
        >>> model_client("Qwen/Qwen3-8B@http://localhost:8000").base_url
        'http://localhost:8000'
    """
    name, _, address = model.rpartition("@")
    try:
        host = urlsplit(_with_port(address, None)).hostname
    except ValueError as error:
        raise ConfigurationError(
            f"Expected a model and its address, as in Qwen/Qwen3-8B@http://localhost:8000, but: {error}"
        ) from error
    if not name:
        raise ConfigurationError(f"Expected a model's name before its address, as in NAME@{address}, got {model!r}.")
    options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "api_key": model_api_key(address)}
    if host == "api.anthropic.com":
        return AnthropicClient(address, None, name, **options)
    reasons = host == "api.openai.com" and _REASONING_MODELS.match(name) is not None
    return OpenAIClient(address, None, name, use_max_completion_tokens=reasons, **options)


def _with_port(endpoint: str, port: int | None) -> str:
    """Return an endpoint with a port, and without a slash at its end."""
    try:
        parts = urlsplit(endpoint)
        own = parts.port
    except ValueError:
        raise _invalid_endpoint(endpoint, "it can't be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.netloc.endswith(":"):
        raise _invalid_endpoint(endpoint, "expected http:// or https:// and a host, with a port or without")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise _invalid_endpoint(endpoint, "expected neither a login, which is the api_key, nor a query, nor a fragment")
    if None not in (own, port) and own != port:
        raise ValueError(f"The port of {endpoint} conflicts with port={port}.")
    netloc = parts.netloc if port is None or own is not None else f"{parts.netloc}:{port}"
    return f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}"


def _invalid_endpoint(endpoint: str, reason: str) -> ValueError:
    return ValueError(f"Invalid endpoint URL{_shown(endpoint)}: {reason}.")


def _shown(endpoint: str) -> str:
    """Return the scheme and the host of an endpoint, with a space before; the rest may hold a password or a key."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        return ""
    is_readable = parts.scheme and parts.hostname and "@" not in endpoint
    return f" {parts.scheme}://{parts.hostname}" if is_readable else ""


class _Requests:
    """Requests of a vendor's client, on the event loop that all blocking use shares, a limited number at once.

    The client keeps connections, which belong to one event loop, and the sessions that share it run in several. Its
    pool looks through all connections and waiting requests when one of them begins or ends, so that thousands take
    time that grows with their square. Those beyond the limit wait here, before the time for their answer begins.

    Args:
        at_once: Requests that may be under way at the same time.

    Raises:
        ValueError: It is below 1.
    """

    def __init__(self, at_once: int) -> None:
        if at_once < 1:
            raise ValueError(f"Expected at_once to be at least 1, got {at_once}.")
        self._turns = asyncio.Semaphore(at_once)

    async def send(self, request: Callable[[], Awaitable[Any]]) -> Any:
        """Send a request when its turn has come, and return its answer.

        Args:
            request: Sends it.
        """
        shared = background_loop().loop
        if asyncio.get_running_loop() is shared:
            return await self._in_turn(request)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._in_turn(request), shared))

    async def _in_turn(self, request: Callable[[], Awaitable[Any]]) -> Any:
        async with self._turns:
            return await request()


def _close(client: Any) -> None:
    """Close the connections of a vendor's client that nothing uses any more."""
    asyncio.run_coroutine_threadsafe(_closed(client), background_loop().loop)


async def _closed(client: Any) -> None:
    # Called here, not where it is scheduled: what a test has in the place of a vendor's client may return no coroutine.
    await client.close()


def _function(tool: Mapping[str, Any], schema_name: str) -> dict[str, Any]:
    """Return a tool, as MCP lists it, as a vendor describes a function."""
    return {
        "name": tool["name"],
        "description": tool.get("description") or "",
        schema_name: _object_schema(tool.get("inputSchema") or tool.get("input_schema") or _NO_PARAMETERS),
    }


def _object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in the form that the vendors accept: an object without alternatives at the top."""
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            objects = (each for each in schema[keyword] if isinstance(each, Mapping) and each.get("type") == "object")
            schema = next(objects, _NO_PARAMETERS)
    if "allOf" in schema:
        parts: Sequence[Mapping[str, Any]] = [part for part in schema["allOf"] if isinstance(part, Mapping)]
        schema = {
            "properties": {name: each for part in parts for name, each in part.get("properties", {}).items()},
            "required": [name for part in parts for name in part.get("required", [])],
        }
    return {"type": "object", "properties": {}, **schema}


def _as_anthropic_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Return the system prompt and the other messages in Anthropic's form; neighbours of one role are joined."""
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    converted: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "system":
            continue
        role, content = _as_anthropic_message(message)
        if converted and converted[-1]["role"] == role:
            converted[-1]["content"] = _blocks(converted[-1]["content"]) + _blocks(content)
        else:
            converted.append({"role": role, "content": content})
    return system, converted


def _as_anthropic_message(message: Mapping[str, Any]) -> tuple[str, Any]:
    content = message.get("content") or ""
    if message["role"] == "tool":
        return "user", [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}]
    if not message.get("tool_calls"):
        return message["role"], content
    calls = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": ToolCall.of(call["id"], call["function"]["name"], call["function"]["arguments"]).args,
        }
        for call in message["tool_calls"]
    ]
    return "assistant", [*_blocks(content), *calls]


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)
