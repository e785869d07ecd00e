"""Episode in a session of its own, whose caller owns the loop and calls tools: TRL's, or Inspect's."""

from collections.abc import Mapping
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError
from openenv.core.sync_client import SyncEnvClient
from openenv.records.answers import AnswerRule
from openenv.train.forms.moves import Move
from openenv.train.forms.tool_form import EPISODE_FAILED, EPISODE_OVER, ToolForm, call_text
from openenv.train.rollout.play import Play
from openenv.train.tools.contents import Content

__all__ = ["ToolPlay"]


class ToolPlay(Play):
    """Episode that is played call by call, in a session of its own; its methods block."""

    def __init__(
        self,
        task: Mapping[str, Any],
        session: SyncEnvClient[Any, Any, Any],
        form: ToolForm,
        *,
        max_turns: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        rule: AnswerRule = AnswerRule(),  # noqa: B008  # it can't be changed
    ) -> None:
        super().__init__(task, max_turns=max_turns, shown=form.shown, parameters=parameters, rule=rule)
        self._session = session
        self.form = form

    def reset(self) -> StepResult[Any]:
        """Start the episode.

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
        """Return the content that a model is shown of a call: the tool's, the refusal's, or that the episode is over.

        Args:
            name: The tool.
            arguments: Its arguments.
            problem: The reason why this is no call, if it could not be read.
        """
        if self.episode.error is not None:
            return EPISODE_FAILED
        if self.is_over:
            return EPISODE_OVER
        unreadable = Move(call_text(name, arguments), problem=problem, tool=name)
        move = self.form.call(name, arguments) if problem is None else unreadable
        self.act([move])
        self.note(None if move.action is None else self._step(move.action))
        return self.answered[0].content if self.answered else EPISODE_FAILED

    def _step(self, action: Any) -> StepResult[Any] | OpenEnvError:
        try:
            return self._session.step(action)
        except OpenEnvError as error:
            return error
