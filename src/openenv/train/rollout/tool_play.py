"""An episode in a session of its own, whose caller owns the loop and calls tools: TRL's, or Inspect's."""

from collections.abc import Collection, Mapping
from typing import Any

from openenv.core.client.tools import EPISODE_OVER
from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError
from openenv.core.sync_client import SyncEnvClient
from openenv.train.rollout.play import Move, MoveResult, Play, call_text, tool_move
from openenv.train.tools.contents import Content, call_content
from openenv.train.tools.environment_tools import EnvironmentTools

__all__ = ["EPISODE_FAILED", "EPISODE_OVER", "ToolPlay", "result_content"]

EPISODE_FAILED = "The environment has failed, and the episode is over. No further action is taken."


class ToolPlay(Play):
    """An episode that is played call by call; its methods block.

    Args:
        task: What its reset is passed.
        session: A session of its own.
        tools: The environment's tools.
        max_turns: Calls after which it is cut off; ``None`` for no limit.
        parameters: What the reset is sent in place of all of the task.
        pixels: The fields of observations that are declared as the pixels of a picture.
    """

    def __init__(
        self,
        task: Mapping[str, Any],
        session: SyncEnvClient[Any, Any, Any],
        tools: EnvironmentTools,
        *,
        max_turns: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        pixels: Collection[str] = (),
    ) -> None:
        super().__init__(task, max_turns=max_turns, parameters=parameters)
        self._pixels = pixels
        self._session = session
        self._tools = tools

    def reset(self) -> StepResult[Any]:
        """Start the episode.

        Returns:
            What the reset gave.

        Raises:
            OpenEnvError: The reset failed; the episode has the error too.
        """
        try:
            result = self._session.reset(**self.parameters)
        except OpenEnvError as error:
            self.begin(error)
            raise
        self.begin(result)
        return result

    def call(self, name: str, arguments: Any, problem: str | None = None) -> Content:
        """Call a tool.

        Args:
            name: The tool.
            arguments: Its arguments.
            problem: Why this is no call, if it could not be read.

        Returns:
            What the model is shown: what the tool gave, why the call was refused, or that the episode is over.
        """
        if self.episode.error is not None:
            return EPISODE_FAILED
        if self.is_over:
            return EPISODE_OVER
        unreadable = Move(call_text(name, arguments), problem=problem, tool=name)
        move = tool_move(self._tools, name, arguments) if problem is None else unreadable
        self.act([move])
        self.note(None if move.action is None else self._step(move.action))
        return result_content(self.answered[0], self._pixels) if self.answered else EPISODE_FAILED

    def _step(self, action: Any) -> StepResult[Any] | OpenEnvError:
        try:
            return self._session.step(action)
        except OpenEnvError as error:
            return error


def result_content(result: MoveResult, pixels: Collection[str] = ()) -> Content:
    """Return what a tool answers, with pictures: what the call gave, or why it was refused.

    Args:
        result: What came of the call.
        pixels: The fields of observations that are declared as the pixels of a picture.
    """
    return result.text if result.result is None else call_content(result.result, pixels)
