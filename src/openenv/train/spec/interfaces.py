"""What rollouts need of an `EnvSpec`, and of several: what plays imports this, and the spec imports what plays."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from openenv.core.client_types import StepResult
from openenv.train.episodes.messages import Content
from openenv.train.spec.sessions import Sessions
from openenv.train.tools.environment_tools import EnvironmentTools

__all__ = ["Spec", "Specs"]

Prompt = Sequence[Mapping[str, Any]]


class Spec(Protocol):
    """An environment and its tasks; an `EnvSpec` is one.

    Attributes:
        name: Short name of the environment.
        max_turns: Actions after which an episode takes no more; ``None`` for no limit.
    """

    name: str
    max_turns: int | None

    @property
    def pool(self) -> Sessions:
        """The sessions with the server."""
        ...

    @property
    def tools(self) -> EnvironmentTools:
        """The environment's tools."""
        ...

    def task_of(self, prompt: Prompt | str) -> dict[str, Any]:
        """Find what ``reset`` is passed for a prompt of the dataset."""
        ...

    def task_of_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Find what ``reset`` is passed for a row of a dataset."""
        ...

    def taken(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Cut a task to what ``reset`` takes."""
        ...

    def messages_of(self, prompt: Prompt, observation: Content | StepResult[Any]) -> list[dict[str, Any]]:
        """Write the conversation up to the first answer: the prompt with the first observation."""
        ...

    def check_shown(self, observation: Any) -> None:
        """Log a warning if the text of a first observation is where no model is shown it."""
        ...


class Specs(Protocol):
    """Environments by name; an `EnvSpec` is one, whose environment has the empty name, and an `EnvSpecs` is one."""

    @property
    def environments(self) -> Mapping[str, Spec]:
        """The environments by their names."""
        ...

    def environment_of(self, prompt: Prompt | str) -> str:
        """Name the environment of a prompt."""
        ...
