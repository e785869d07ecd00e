"""The reasoning-gym environment: any of the datasets, chosen anew with each reset."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

from pydantic_core import from_json, to_json

from openenv.adapters.reasoning_gym.datasets import check_dataset
from openenv.adapters.reasoning_gym.environment import ReasoningEnvironment
from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, InvalidRequestError

from ..models import AnswerAction, ReasoningObservation, ReasoningState
from .settings import Settings


class ReasoningGymEnvironment(Environment[AnswerAction, ReasoningObservation, ReasoningState]):
    """Answer a question of one of reasoning-gym's datasets. The reward is what the dataset's own scoring gives, 0 to 1.

    Args:
        dataset: The dataset where a reset names none; by default what ``REASONING_GYM_DATASET`` says, else
            ``chain_sum``.
        config: Its parameters where a reset names none; by default what ``REASONING_GYM_CONFIG`` says, as JSON.
        sandbox: ``"none"`` where this machine is itself a sandbox, which datasets ask for that run answers as Python;
            by default what ``REASONING_GYM_SANDBOX`` says.

    Raises:
        EnvironmentNotFoundError: There is no such dataset.
        ConfigurationError: It does not take these parameters, or it runs answers outside of a sandbox.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 64
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(
        self, dataset: str | None = None, config: Mapping[str, Any] | None = None, sandbox: str | None = None
    ) -> None:
        super().__init__()
        settings = Settings.from_variables()
        self._sandbox = sandbox or settings.sandbox
        self._default = self._open(dataset or settings.dataset, settings.config if config is None else config)
        self._playing = self._default

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        dataset: str | None = None,
        config: dict[str, Any] | None = None,
        split: str | None = None,
        index: int | None = None,
    ) -> ReasoningObservation:
        """Give a question.

        Args:
            seed: Chooses the task where no index does: the same seed, the same task, and neighbouring seeds
                neighbouring tasks. Without either it is any.
            episode_id: Name of the episode.
            dataset: Name of the dataset; the server's own where it is ``None``.
            config: The dataset's parameters, among them ``seed`` and ``size``, which make its tasks; where it is
                ``None``, the server's for its own dataset, and none for another.
            split: ``train``, which is the default, ``validation`` or ``test``.
            index: The task's index in its split.

        Returns:
            The question.

        Raises:
            InvalidRequestError: There is no such dataset or task, it does not take these parameters, or it runs answers
                outside of a sandbox. The running episode continues.
        """
        chosen = self._chosen(dataset, config)
        observation = chosen.reset(seed, episode_id, split, index)
        self._playing = chosen
        return observation

    def step(self, action: AnswerAction) -> ReasoningObservation:
        """Score the answer, which ends the episode.

        Args:
            action: The answer.

        Returns:
            The reward; the metadata has the dataset's own answer.

        Raises:
            ResetNeededError: No question is open.
        """
        return self._playing.step(action)

    @property
    def state(self) -> ReasoningState:
        """Task that is played, and whether it was answered."""
        return self._playing.state

    def render(self) -> str | None:
        """Show a person how the answer was scored, once there is one."""
        return self._playing.render()

    def list_splits(self) -> list[str]:
        """Name the splits of the server's own dataset."""
        return self._default.list_splits()

    def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has."""
        return self._default.num_tasks(split)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return what ``reset`` is passed for a task."""
        return self._default.get_task(split, index)

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return what ``reset`` is passed for each task."""
        return self._default.list_tasks(split)

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return what ``reset`` is passed for the tasks from ``start`` up to ``stop``."""
        return self._default.get_task_range(split, start, stop)

    def _chosen(self, dataset: str | None, config: dict[str, Any] | None) -> ReasoningEnvironment:
        if dataset is None and config is None:
            return self._default
        name, arguments = self._default.dataset if dataset is None else dataset, config
        if arguments is None:
            arguments = self._default.arguments if name == self._default.dataset else {}
        if (name, arguments) == (self._playing.dataset, self._playing.arguments):
            return self._playing
        if _names_a_path(arguments):
            raise InvalidRequestError(
                "Expected a config without paths: no file of the server's machine can be named here."
            )
        try:
            return self._open(name, arguments)
        except (ConfigurationError, EnvironmentNotFoundError) as error:
            raise InvalidRequestError(str(error)) from error

    def _open(self, dataset: str, config: Mapping[str, Any]) -> ReasoningEnvironment:
        _check(dataset, to_json(config, serialize_unknown=True), self._sandbox)
        return ReasoningEnvironment(dataset, config)


def _names_a_path(value: object) -> bool:
    """Return whether there is a path in a value, such as that of ``data_file``; an operator may be a single ``/``."""
    if isinstance(value, dict):
        return any(map(_names_a_path, value.values()))
    if isinstance(value, list):
        return any(map(_names_a_path, value))
    return isinstance(value, str) and len(value) > 1 and not {"/", "\\"}.isdisjoint(value)


@lru_cache(maxsize=256)
def _check(dataset: str, config: bytes, sandbox: str | None) -> None:
    """Check a dataset as ``check_dataset`` does, once: it makes the dataset for that, which takes some a second."""
    check_dataset(dataset, from_json(config), sandbox)
