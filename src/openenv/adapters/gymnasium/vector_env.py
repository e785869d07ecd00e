"""Many sessions with one server as a ``gymnasium.vector.VectorEnv``."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from openenv.adapters.gymnasium.conversion import make_conversion, report_of
from openenv.adapters.gymnasium.opening import Playable, open_client
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, OpenEnvError, SlotError

__all__ = ["GymnasiumVectorEnv"]

Result = StepResult[Any]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Rewards = np.ndarray[Any, np.dtype[np.float64]]
Seeds = int | np.integer[Any] | Sequence[int | None] | None


class GymnasiumVectorEnv(VectorEnv[Any, Any, Any]):
    """Served environments for code that steps Gymnasium's vector environments.

    Observations, rewards, ends and infos are batched as Gymnasium's own vector environments batch them. The spaces
    follow from the schemas that the server publishes, as `openenv.adapters.gymnasium.spaces` lists.

    Args:
        environment: Name of an installed environment, its folder, a server's URL, or a client. A server that is started
            for a name or folder ends with ``close``; a client stays open.
        num_envs: Number of sessions to open.
        autoreset_mode: When a new episode follows an ended one: ``NEXT_STEP`` (the next step's action is ignored, its
            reward is 0), ``SAME_STEP`` (the last observation is in ``infos["final_obs"]``), or ``DISABLED`` (you reset
            the ended ones with ``options={"reset_mask": ...}``). An episode that follows by itself has the options of
            the last ``reset``.
        action_space: A space of your own for one environment's actions. Its values are sent as they are, unless
            ``encode_action`` is given too.
        observation_space: A space of your own for one environment's observations. Observations are used as they are,
            unless ``decode_observation`` is given too.
        encode_action: Makes an action from a value of the action space: a dict of its fields or a model, as the client
            takes it.
        decode_observation: Makes a value of the observation space from an observation: a dict, or what the client
            gives.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
        ConnectionFailedError: There is no server at the URL.
        ProviderError: The server could not be started.
        ServerCapacityError: The server holds fewer sessions.
        ConfigurationError: An action or observation has no space; the message names the field and the remedy.

    Example::

        envs = GymnasiumVectorEnv("catch", num_envs=8)
        observations, infos = envs.reset(seed=1)
        observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
        envs.close()
    """

    def __init__(
        self,
        environment: Playable,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        action_space: Space[Any] | None = None,
        observation_space: Space[Any] | None = None,
        encode_action: Callable[[Any], Any] | None = None,
        decode_observation: Callable[[Any], Any] | None = None,
    ) -> None:
        self.num_envs = num_envs
        self._mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self._mode}
        with ExitStack() as opened:
            client = open_client(environment, num_envs, opened, arrays=decode_observation is None)
            vector = client.sync().vector(num_envs, autoreset=self._mode is AutoresetMode.NEXT_STEP)
            self._vector = opened.enter_context(vector)
            self._conversion = make_conversion(
                client, action_space, observation_space, encode_action, decode_observation
            )
            self._opened = opened.pop_all()
        self.single_action_space = self._conversion.action_space
        self.single_observation_space = self._conversion.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._reset_needed = True
        self._tasks: list[dict[str, Any]] = [{}] * num_envs
        self._observations: list[Any] = [None] * num_envs
        self._ended = [False] * num_envs

    def reset(self, *, seed: Seeds = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every session.

        Args:
            seed: One seed for each session; or an integer, to which the session's number is added; or ``None``.
            options: The task's parameters for all of them, as the environment's ``reset`` takes them. An array of flags
                under ``reset_mask`` chooses the sessions to reset; the others stay where they are.

        Returns:
            The observations of all sessions, and what those that were reset reported beside them.

        Raises:
            SlotError: Some sessions failed; it has the error of each.
        """
        super().reset(seed=int(seed) if isinstance(seed, int | np.integer) else None)
        task = dict(options or {})
        slots = self._chosen(task.pop("reset_mask", None))
        seeds = self._seeds(seed)
        self._reset_needed = True  # until all has gone well
        chosen_seeds, tasks = [seeds[slot] for slot in slots], [task] * len(slots)
        results = _checked(self._vector.reset(seeds=chosen_seeds, tasks=tasks, slots=slots))
        reports: dict[int, dict[str, Any]] = {}
        for slot, result in results.items():
            self._tasks[slot] = task
            self._note(slot, result)
            *_, reports[slot] = report_of(result)
        self._reset_needed = False
        return self._batched(), self._infos(reports)

    def step(self, actions: Any) -> tuple[Any, Rewards, Flags, Flags, dict[str, Any]]:
        """Do one action in every session.

        Args:
            actions: One action for each session, of the batched action space.

        Returns:
            Observations, rewards, whether each episode ended by itself (terminations) or was cut off (truncations), and
            what the environments reported beside these.

        Raises:
            ResetNeeded: There was no ``reset`` yet, or none since an error: the other sessions did their step then, and
                their results are lost.
            SlotError: Some sessions failed; it has the error of each.
        """
        self._check_ready()
        encoded = [self._conversion.encode_action(action) for action in iterate(self.action_space, actions)]
        was_reset, self._reset_needed = self._ended.copy(), True
        stepped = enumerate(self._vector.step(encoded))
        results = _checked([result if was_reset[slot] else _rewarded(result) for slot, result in stepped])
        rewards = np.zeros(self.num_envs, np.float64)
        terminations, truncations = np.zeros(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        reports: dict[int, dict[str, Any]] = {}
        for slot, result in results.items():
            rewards[slot] = 0.0 if was_reset[slot] else result.counted_reward
            terminations[slot], truncations[slot], reports[slot] = report_of(result)
            self._note(slot, result)
        if self._mode is AutoresetMode.SAME_STEP:
            self._begin_anew(reports)
        self._reset_needed = False
        return self._batched(), rewards, terminations, truncations, self._infos(reports)

    def close_extras(self, **kwargs: Any) -> None:
        """End the sessions, and the server if it was started for them; what ``close`` does the first time."""
        self._opened.close()

    def _check_ready(self) -> None:
        if self._reset_needed:
            raise ResetNeeded("Call reset() first: before the first step, and after an error.")
        if self._mode is AutoresetMode.DISABLED and any(self._ended):
            ended = [slot for slot, has_ended in enumerate(self._ended) if has_ended]
            raise ResetNeeded(f"The episodes of {ended} have ended; reset these with options={{'reset_mask': ...}}.")

    def _note(self, slot: int, result: Result) -> None:
        """Keep whether a session's episode has ended."""
        self._observations[slot] = self._conversion.decode_observation(result.observation)
        self._ended[slot] = result.done

    def _begin_anew(self, reports: dict[int, dict[str, Any]]) -> None:
        """Start the next episode where an episode has ended, and report the last observation of the ended one."""
        slots = [slot for slot, has_ended in enumerate(self._ended) if has_ended]
        if not slots:
            return
        results = _checked(self._vector.reset(tasks=[self._tasks[slot] for slot in slots], slots=slots))
        for slot, result in results.items():
            last = {"final_obs": self._observations[slot], "final_info": reports[slot]}
            self._note(slot, result)
            *_, info = report_of(result)
            reports[slot] = {**last, **info}

    def _chosen(self, mask: Any) -> list[int]:
        """Return the slots that a mask chooses."""
        if mask is None:
            return list(range(self.num_envs))
        flags = np.asarray(mask)
        if flags.shape != (self.num_envs,) or flags.dtype != np.bool_ or not flags.any():
            raise ConfigurationError(
                f"Expected reset_mask to be {self.num_envs} flags, at least one of them true; got {mask!r:.200}."
            )
        if self._reset_needed and not flags.all():
            raise ResetNeeded("Call reset() without reset_mask first: before the first step, and after an error.")
        return np.flatnonzero(flags).tolist()

    def _seeds(self, seed: Seeds) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + slot for slot in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ConfigurationError(f"Expected an integer or {self.num_envs} seeds, got {len(seed)} seeds.")
        return [None if one is None else int(one) for one in seed]

    def _batched(self) -> Any:
        space = self.single_observation_space
        out = create_empty_array(space, n=self.num_envs)
        assert out is not None
        return concatenate(space, self._observations, out)

    def _infos(self, reports: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for slot, report in reports.items():
            infos = self._add_info(infos, report, slot)
        return infos


def _rewarded(result: Result | OpenEnvError | None) -> Result | OpenEnvError | None:
    """Return the error of a step whose reward is missing at the end or no number, which is no reward of 0."""
    return (result.reward_error or result) if isinstance(result, StepResult) else result


def _checked(results: Sequence[Result | OpenEnvError | None]) -> dict[int, Result]:
    """Return the results by their slots, without those that were left out.

    Raises:
        SlotError: Some are errors.
    """
    errors = {slot: result for slot, result in enumerate(results) if isinstance(result, OpenEnvError)}
    if errors:
        raise SlotError(errors, len(results)) from next(iter(errors.values()))
    return {slot: result for slot, result in enumerate(results) if isinstance(result, StepResult)}
