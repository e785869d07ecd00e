"""An MCP server as an environment."""

import copy
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from mcp import McpError, types
from pydantic_core import from_json

from openenv.adapters.mcp_server.process import ServerProcess
from openenv.adapters.mcp_server.rewards import RewardFunction, ToolCall, load_reward, reward_of
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    RESERVED_TOOL_NAMES,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.tools import MethodTool
from openenv.core.env_server.types import EnvironmentMetadata, State
from openenv.core.exceptions import (
    ConfigurationError,
    EnvironmentFailedError,
    EnvironmentProcessEndedError,
    InvalidRequestError,
    ResetNeededError,
    TaskNotFoundError,
)
from openenv.core.tasks import DEFAULT_SPLIT, Splits, Task, TaskListing, read_tasks

__all__ = ["McpServerEnvironment", "McpServerObservation"]

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 30.0
START_TIMEOUT_S = 60.0

# Names of tools that agents can have, by MCP.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# The first of them that the server has no tool of ends an episode.
_FINAL_NAMES = ("submit", "submit_answer", "submit_final_answer")
# Code of MCP's client library for an answer that did not come in time.
_TIMED_OUT = 408
_ENDED = "Expected a reset: the episode has ended."


class McpServerObservation(CallToolObservation):
    """Observation of an MCP server: the task's prompt after a reset, and what a tool gave after a call.

    Attributes:
        tool_name: The tool; empty after a reset.
        result: What the tool gave, as MCP has it: ``content``, ``structured_content``, ``data`` and so on.
        prompt: The task in words; empty after a call.
    """

    tool_name: str = ""
    prompt: str = ""


class McpServerEnvironment(TaskListing, Environment[CallToolAction, McpServerObservation, State]):
    """The tools of an MCP server, with tasks and a reward function beside.

    A server can't be reset, so each episode gets a process of its own. A process that ends by itself costs its episode,
    and nothing else. With a reward function there is one tool more, ``submit``, by which the agent gives its final
    answer; it ends the episode and gives the reward. All methods that send the server requests are ``async``.

    Args:
        command: The command that starts the server, which speaks MCP over its standard input and output.
        tasks: The tasks, or the file that lists them, see ``openenv.core.tasks.read_tasks``.
        reward: The reward function, or where it is to be imported from, see ``rewards.load_reward``.
        variables: Names of environment variables that the server gets. Without these it gets ``PATH``, ``HOME`` and the
            like, and no secret of this process.
        call_timeout_s: Seconds that a call may take.
        start_timeout_s: Seconds that the server may take to start.

    Raises:
        ConfigurationError: There is no command, or the tasks or the function can't be read.

    Example:
        >>> env = McpServerEnvironment("python notes_server.py", tasks=[{"prompt": "Write a note."}])
        >>> env.list_splits()
        ['train']
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    OFFERS_TOOLS: ClassVar[bool] = True
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        tasks: str | Path | Sequence[Task] | None = None,
        reward: str | RewardFunction | None = None,
        variables: Sequence[str] = (),
        call_timeout_s: float = CALL_TIMEOUT_S,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        super().__init__()
        self._command = split_command(command)
        self._tasks = _splits(tasks)
        self._reward = load_reward(reward) if isinstance(reward, str) else reward
        self._variables = tuple(variables)
        self._call_timeout_s = call_timeout_s
        self._start_timeout_s = start_timeout_s
        self._process: ServerProcess | None = None
        self._tools: dict[str, Tool] = {}
        self._final: MethodTool | None = None
        self._task: Task | None = None
        self._calls: list[ToolCall] = []
        self._playing = False
        self._state = State()

    async def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
    ) -> McpServerObservation:
        """Start an episode, in a new process of the server unless the present one has not been used yet.

        Args:
            seed: Chooses the task where no index does: the same seed, the same task.
            episode_id: Name of the episode.
            split: The split that the task is listed in; by default the first one.
            index: Where it is listed there.

        Returns:
            The task's prompt.

        Raises:
            TaskNotFoundError: There is no such task.
            EnvironmentFailedError: The server can't be started, or can't list its tools.
        """
        task = self._choose(split, index, seed)
        self._playing = False
        if self._state.step_count:
            await self._end_process()
        try:
            await self._list()
        except EnvironmentProcessEndedError:  # between two uses
            await self._end_process()
            await self._list()
        self._task, self._calls, self._playing = task, [], True
        self._state = State(episode_id=episode_id)
        return McpServerObservation(prompt=(task or {}).get("prompt", ""))

    async def step(
        self, action: CallToolAction | ListToolsAction, timeout_s: float | None = None
    ) -> CallToolObservation | ListToolsObservation:
        """List the tools, or call one.

        Args:
            action: The action.
            timeout_s: Seconds that the call may take, if fewer than it has anyway.

        Returns:
            The tools, or what the tool gave; of ``submit``, the reward.

        Raises:
            ResetNeededError: No episode is being played.
            EnvironmentProcessEndedError: The server has ended.
            EnvironmentFailedError: The server's answer is none, or the reward function gave no number.
        """
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=await self._list())
        if not self._playing:
            raise ResetNeededError(_ENDED if self._state.step_count else "Expected a reset first.")
        self._state.step_count += 1
        if self._final is not None and action.tool_name == self._final.name:
            return await self._submit(self._final, action)
        limit_s = self._call_timeout_s if timeout_s is None else min(timeout_s, self._call_timeout_s)
        observation = await self._call(action, limit_s)
        self._calls.append(_noted(action, observation))
        return observation

    @property
    def state(self) -> State:
        """The episode's name and its steps so far."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the server's name, without its arguments, which may hold secrets."""
        program = Path(self._command[0]).name
        return EnvironmentMetadata(name="mcp-server", description=f"The tools of an MCP server, started by {program}.")

    async def close(self) -> None:  # type: ignore[override]  # what returns something to await may stand for it
        """End the server's process."""
        self._playing = False
        await self._end_process()

    @property
    def task_counts(self) -> dict[str, int]:
        """Number of tasks of each split.

        Raises:
            NotImplementedError: It was given no tasks, and so lists none.
        """
        if not self._tasks:
            raise NotImplementedError("this MCP server is served without tasks")
        return {split: len(tasks) for split, tasks in self._tasks.items()}

    def _choose(self, split: str | None, index: int | None, seed: int | None) -> Task | None:
        """Choose the task of an episode, and copy it; ``None`` where there are no tasks, and none is requested."""
        if not self._tasks:
            if split is None and index is None:
                return None
            raise TaskNotFoundError("Expected neither split nor index: this MCP server is served without tasks.")
        task_ref = self.choose_task(split, index, seed)
        return copy.deepcopy(self._tasks[task_ref.split][task_ref.index])

    async def _list(self) -> list[Tool]:
        """List the tools, and start the server where none runs; after it has ended, list those that it had."""
        if self._process is not None and not self._process.alive and not self._playing:
            await self._end_process()
        if self._process is None:
            self._process = await ServerProcess.start(self._command, self._variables, self._start_timeout_s)
        if self._process.alive:
            listed = await self._process.tools(self._call_timeout_s)
            self._tools = {one.name: _tool(one) for one in listed if _may_be_offered(one.name)}
            self._final = None if self._reward is None else _final_tool(self._tools)
        final = [] if self._final is None else [self._final.described]
        return [*self._tools.values(), *final]

    async def _call(self, action: CallToolAction, timeout_s: float) -> McpServerObservation:
        process = self._process
        if process is None or not process.alive:
            raise EnvironmentProcessEndedError("step", "has ended", may_have_happened=False)
        if action.tool_name not in self._tools:
            await self._list()  # it may be new
        if action.tool_name not in self._tools:
            return _failed(action, ToolErrorType.TOOL_NOT_FOUND, f"Unknown tool: {action.tool_name!r:.200}")
        try:
            result = await process.call(action.tool_name, action.arguments, timeout_s, self._pass_on_progress)
        except McpError as error:
            return _refusal(action, error, timeout_s)
        if result.isError:
            return _failed(action, ToolErrorType.EXECUTION_ERROR, _text_of(result))
        return McpServerObservation(tool_name=action.tool_name, result=_result_of(result))

    async def _submit(self, final: MethodTool, action: CallToolAction) -> McpServerObservation:
        assert self._reward is not None
        try:
            answer = final.signature.checked(action.arguments)["answer"]
        except InvalidRequestError as error:
            return _failed(action, ToolErrorType.INVALID_ARGS, error.message)
        reward = await reward_of(self._reward, self._task, tuple(self._calls), answer)
        self._playing = False
        return McpServerObservation(tool_name=final.name, result="Submitted.", reward=reward, done=True)

    async def _pass_on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        if total:
            self.report_progress(progress / total, message or "")

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end()


def split_command(command: str | Sequence[str]) -> tuple[str, ...]:
    """Separate a command from its arguments, as a shell does; no shell runs it.

    Raises:
        ConfigurationError: There is none.

    Example:
        >>> split_command("python 'my server.py' --fast")
        ('python', 'my server.py', '--fast')
    """
    try:
        parts = tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)
    except ValueError as error:
        raise ConfigurationError(f"The command {command!r} can't be read: {error}.") from error
    if not parts:
        raise ConfigurationError("Expected the command of an MCP server, as in 'python server.py', got nothing.")
    return parts


def submit(answer: str) -> None:
    """Give the final answer, which ends the episode."""


def _final_tool(tools: Mapping[str, Tool]) -> MethodTool:
    """Make the tool that ends an episode, under a name that no tool of the server has."""
    for name in _FINAL_NAMES:
        if name not in tools:
            return MethodTool(submit, name, is_method=False)
    raise EnvironmentFailedError(f"The MCP server has tools named {', '.join(_FINAL_NAMES)}; none is left to end with.")


def check_task(task: Task) -> None:
    """Check a row of a file of tasks.

    Raises:
        ValueError: Its prompt is no text.
    """
    if not isinstance(task.get("prompt", ""), str):
        raise ValueError("a prompt is a text")


def _splits(tasks: str | Path | Sequence[Task] | None) -> Splits:
    if tasks is None:
        return {}
    return read_tasks(Path(tasks), check_task) if isinstance(tasks, str | Path) else {DEFAULT_SPLIT: list(tasks)}


def _may_be_offered(name: str) -> bool:
    if name not in RESERVED_TOOL_NAMES and _NAME.fullmatch(name):
        return True
    logger.warning("the MCP server's tool %.200r is left out: agents can't have a tool of that name", name)
    return False


def _tool(listed: types.Tool) -> Tool:
    return Tool(name=listed.name, description=listed.description or listed.title or "", input_schema=listed.inputSchema)


def _failed(action: CallToolAction, kind: ToolErrorType, message: str) -> McpServerObservation:
    return McpServerObservation(tool_name=action.tool_name, error=ToolError(error_type=kind, message=message))


def _refusal(action: CallToolAction, error: McpError, timeout_s: float) -> McpServerObservation:
    code, message = error.error.code, error.error.message
    if code == _TIMED_OUT:
        message = f"The tool did not answer within {timeout_s:g} s; what it does may still take effect."
        return _failed(action, ToolErrorType.TIMEOUT, message)
    kind = ToolErrorType.INVALID_ARGS if code == types.INVALID_PARAMS else ToolErrorType.EXECUTION_ERROR
    return _failed(action, kind, message)


def _result_of(result: types.CallToolResult) -> dict[str, Any]:
    """Write a result as the servers of environments do."""
    structured = result.structuredContent
    return {
        "content": [block.model_dump(mode="json") for block in result.content],
        "structured_content": structured,
        "meta": result.meta,
        "data": structured["result"] if structured is not None and _is_wrapped(structured, result) else structured,
        "is_error": False,
    }


def _is_wrapped(structured: Mapping[str, Any], result: types.CallToolResult) -> bool:
    """Return whether a server's library has put a plain value into an object: the text is then of the value alone."""
    if structured.keys() != {"result"}:
        return False
    try:
        return bool(from_json(_text_of(result)) != structured)
    except ValueError:
        return True


def _noted(action: CallToolAction, observation: McpServerObservation) -> ToolCall:
    """Record a call for the reward function."""
    if observation.error is not None:
        return ToolCall(action.tool_name, action.arguments, error=observation.error.message)
    result = observation.result
    texts = [block["text"] for block in result["content"] if block["type"] == "text"]
    value = "\n".join(texts) if result["data"] is None else result["data"]
    return ToolCall(action.tool_name, action.arguments, value)


def _text_of(result: types.CallToolResult) -> str:
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    return "\n".join(texts) or "The tool failed, and gave no reason."
