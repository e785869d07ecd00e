"""Episodes of a language model that is loaded here: a run's, one in a folder, or one of the Hub."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from openenv.core.exceptions import ConfigurationError
from openenv.records.run_folder import RunFolder
from openenv.train.agents.policy import load_policies
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import PlayedEpisode, Usage
from openenv.train.forms.text_form import turn_messages
from openenv.train.quiet import quiet_libraries
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.spec.sessions import Sessions
from openenv.train.tasks.seeds import evaluation_draws
from openenv.train.tasks.task_choice import NumberedTask

__all__ = ["PolicyEpisodes"]


class PolicyEpisodes:
    """Episodes of a model that is loaded here. Its actions are texts, as in ``openenv train``.

    Args:
        settings: What is played; the model is a run's folder, a model's folder, or a model's id on the Hub.
        sessions: Episodes that are played at once.
        env_vars: Environment variables to set for a server that is started.

    Attributes:
        client: A client of the environment, connected.

    Raises:
        ConfigurationError: There is no such model, or the settings name calls of tools or a system prompt.
        OpenEnvError: There is no such environment, or its server could not be started or reached.
    """

    def __init__(self, settings: PlaySettings, sessions: int, env_vars: Mapping[str, str] | None = None) -> None:
        assert settings.model is not None
        if settings.form == "tools":
            raise ConfigurationError(
                "A model without --llm-endpoint acts by texts, as in training. To have it call tools, serve it, as "
                "with `transformers serve` or `vllm serve`, and give the address."
            )
        if settings.system_prompt is not None:
            raise ConfigurationError(
                "A model without --llm-endpoint is shown what it was shown in training, without a system prompt. Leave "
                "out --system-prompt, or serve the model and give the address."
            )
        self._settings = settings
        config, source = _config_and_source(settings)
        self._sessions = Sessions.open(
            settings.environment,
            sessions,
            with_tools=None,
            step_timeout_s=settings.step_timeout_s,
            env_vars=env_vars,
            base_url=settings.base_url,
            takes_fewer=True,
        )
        self.client = self._sessions.client
        try:
            with quiet_libraries():
                (self._policy,) = load_policies(config, {"": self._sessions}, source).values()
            self._policy.to_device(config)
        except BaseException:
            self._sessions.close()
            raise
        self._config = config
        self._version = f"step {config.steps}" if isinstance(source, Path) else None

    def play(self, tasks: Sequence[NumberedTask]) -> Iterator[PlayedEpisode]:
        """Play one episode for each task, as many at once as there are sessions.

        Args:
            tasks: The tasks with the episodes' numbers.

        Yields:
            The episodes, in the order of the tasks.

        Raises:
            OpenEnvError: A reset failed, or the environment failed in more than half of the episodes.
        """
        for start in range(0, len(tasks), len(self._sessions)):
            batch = tasks[start : start + len(self._sessions)]
            draws = evaluation_draws(self._settings.seed, [number for number, _ in batch])
            plays = self._policy.play(
                self._sessions,
                self._config,
                [task for _, task in batch],
                temperature=self._settings.temperature,
                randomness=draws,
            )
            for (number, _), play in zip(batch, plays, strict=True):
                episode = play.episode
                yield PlayedEpisode(number, episode, turn_messages(episode.turns), [], _usage(episode, self._version))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sessions.close()


def _config_and_source(settings: PlaySettings) -> tuple[TrainConfig, str | Path]:
    run = RunFolder(Path(str(settings.model)))
    limits = {"max_turns": settings.max_turns, "max_action_tokens": settings.max_tokens}
    given: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    if run.config.is_file():
        if not run.model.is_dir():
            raise ConfigurationError(f"The run in {run.path} has not ended, so there is no model in it yet.")
        return load_config(run.config, **given), run.model
    return load_config(environment=settings.environment, model=settings.model, **given), str(settings.model)


def _usage(episode: Episode, version: str | None) -> Usage:
    written = sum(episode.env_mask)
    return Usage(episode.length - written, written, model_version=version)
