"""The session that the public package's page has: one for all callers of ``/web/reset`` and ``/web/step``.

The page of this package needs none of it: there each visitor has a session of their own, over ``/ws``.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.serialization import read_form_fields
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.settings import ServerConfig
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import RequestError, ResetNeededError
from openenv.core.wire.answers import outcome_json, state_json
from openenv.core.wire.results import Outcome
from openenv.core.wire.types import EnvironmentMetadata, State

_MOST_LOGS = 1000
# Characters of JSON of all of them; the last one is kept whatever it has.
_MOST_LOGGED = 4 * 1024 * 1024
_MOST_WATCHERS = 16
# Idle timeout of the session, unless the server's settings differ.
_IDLE_TIMEOUT_S = 900.0
# Timeout for the state when the server sets no limit for steps.
_STATE_TIMEOUT_S = 30.0


class ActionLog(BaseModel):
    """One step of the episode."""

    timestamp: str = Field(description="when the step ended, in ISO 8601")
    action: dict[str, Any] = Field(description="the action's fields, as they were sent")
    observation: dict[str, Any] = Field(description="the observation that followed")
    reward: float | None = Field(None, description="the reward of the step")
    done: bool = Field(False, description="whether the episode ended with the step")
    step_count: int = Field(description="number of the step, from 1")


class EpisodeState(BaseModel):
    """The episode so far."""

    episode_id: str | None = Field(None, description="id of the episode; null before the first reset")
    step_count: int = Field(0, description="steps of the episode")
    current_observation: dict[str, Any] | None = Field(None, description="the last observation")
    action_logs: list[ActionLog] = Field(default_factory=list, description=f"the last {_MOST_LOGS} steps")
    is_reset: bool = Field(True, description="whether no step was made since the last reset")


class WebInterfaceManager:
    """Plays one session of an environment, which all callers share; they take turns.

    The session is opened with the first call. It is closed when it is idle for too long or when another session needs
    its slot; a reset then opens a new one.

    Args:
        env: An environment class, a function that creates environments, or an instance.
        action_cls: Class of the actions.
        observation_cls: Class of the observations.
        metadata: Description of the environment.
        sessions: Opens the session; by default a manager with a single slot, for ``env``.

    Attributes:
        action_cls: As above.
        observation_cls: As above.
        metadata: As above.
        episode_state: The episode so far.

    Example:
        >>> manager = WebInterfaceManager(CatchEnvironment, CatchAction, CatchObservation)  # doctest: +SKIP
        >>> (await manager.reset_environment({"seed": 1}))["done"]  # doctest: +SKIP
        False
    """

    def __init__(
        self,
        env: Any,
        action_cls: type[BaseModel],
        observation_cls: type[BaseModel],
        metadata: EnvironmentMetadata | None = None,
        *,
        sessions: SessionManager | None = None,
    ) -> None:
        if sessions is None:
            types = EnvironmentTypes(action_cls, observation_cls, State)
            sessions = SessionManager(EnvironmentFactory(env), types, ServerConfig.of_concurrency(1, None, {}))
        name = sessions.factory.name
        self.action_cls = action_cls
        self.observation_cls = observation_cls
        self.metadata = metadata or EnvironmentMetadata(name=name, description=f"{name} environment")
        self.episode_state = EpisodeState()
        self._sessions = sessions
        self._session: Session | None = None
        self._state: dict[str, Any] | None = None
        self._turn = asyncio.Lock()
        self._watchers: set[asyncio.Event] = set()
        self._sizes: deque[int] = deque()  # characters of each of the logs
        # What ``state_update`` has returned; ``None`` once there is something new.
        self._written: str | None = None

    async def reset_environment(self, reset_kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Start an episode.

        Args:
            reset_kwargs: Arguments of the environment's ``reset``; those that it does not accept are ignored.

        Returns:
            ``{"observation", "reward", "done"}``, with ``"metadata"`` if there is any.

        Raises:
            RequestError: No slot is free, an argument is invalid, or the environment failed.
        """
        async with self._turn:
            session = await self._open_session()
            answer = _document(await session.reset(reset_kwargs or {}))
            self.episode_state = EpisodeState()
            self._sizes.clear()
            await self._update(session, answer)
            return answer

    async def step_environment(self, action_data: dict[str, Any]) -> dict[str, Any]:
        """Perform one action.

        Args:
            action_data: The action's fields, which may be those of a form, as for
                ``deserialize_action_with_preprocessing``.

        Returns:
            As for ``reset_environment``.

        Raises:
            ResetNeededError: The environment has to be reset first, or the session was closed.
            RequestError: The action is invalid, no slot is free, or the environment failed.
        """
        async with self._turn:
            session = await self._continued_session()
            answer = _document(await session.step(read_form_fields(action_data)))
            self.episode_state.is_reset = False
            log = ActionLog(
                timestamp=datetime.now(UTC).isoformat(),
                action=action_data,
                observation=answer["observation"],
                reward=answer["reward"],
                done=answer["done"],
                step_count=session.episode.step_count,
            )
            self._add_log(log)
            await self._update(session, answer)
            return answer

    def get_state(self) -> dict[str, Any]:
        """Return the environment's state, as it was after the last reset or step.

        Raises:
            RuntimeError: No episode was started yet, or the environment could not say its state.
        """
        if self._state is None:
            raise RuntimeError("There is no state yet; reset the environment first.")
        return dict(self._state)

    async def read_state(self) -> dict[str, Any]:
        """Return the environment's state now, which may be before the first reset.

        Raises:
            RequestError: No slot is free, or the environment failed.
        """
        async with self._turn:
            return await self._state_of(await self._open_session())

    @property
    def is_watched_by_most(self) -> bool:
        """True where as many watch already as may."""
        return len(self._watchers) >= _MOST_WATCHERS

    @contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set after each reset and step, until the block ends; its user clears it."""
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def state_update(self) -> str:
        """Return the episode so far as JSON, in the form of the socket ``/ws/ui``; one text for all its sockets."""
        if self._written is None:
            document = {"type": "state_update", "episode_state": self.episode_state.model_dump(mode="json")}
            self._written = json.dumps(document)
        return self._written

    def _add_log(self, log: ActionLog) -> None:
        """Add the log of a step, and drop the earliest ones beyond what is kept."""
        self._sizes.append(len(log.model_dump_json()))
        while len(self._sizes) > 1 and (len(self._sizes) > _MOST_LOGS or sum(self._sizes) > _MOST_LOGGED):
            self._sizes.popleft()
        self.episode_state.action_logs = [*self.episode_state.action_logs, log][-len(self._sizes) :]

    async def _open_session(self) -> Session:
        """Return the session, and open one if there is none (any more)."""
        session = self._session
        if session is None or session.ending is not None:
            idle_timeout_s = self._sessions.limits.idle_timeout_s or _IDLE_TIMEOUT_S
            session = await self._sessions.open(idle_timeout_s=idle_timeout_s, transport=Transport.HTTP, evictable=True)
            self._session = session
        return session

    async def _continued_session(self) -> Session:
        """Return the session for a step. A fresh one in place of one that has ended would play another episode."""
        if self._session is not None and self._session.ending is not None:
            raise ResetNeededError(
                "The session of the page has ended; it was idle for too long, or another client needed its slot. "
                "Reset it to start another one."
            )
        return await self._open_session()

    async def _update(self, session: Session, answer: dict[str, Any]) -> None:
        try:
            self._state = await self._state_of(session)
        except RequestError:  # the reset or the step succeeded all the same
            self._state = None
        self.episode_state.episode_id = (self._state or {}).get("episode_id") or session.episode.id
        self.episode_state.step_count = session.episode.step_count
        self.episode_state.current_observation = answer["observation"]
        self._written = None
        for watcher in self._watchers:
            watcher.set()

    async def _state_of(self, session: Session) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(state_json(await session.state(_STATE_TIMEOUT_S)))
        return state


def _document(outcome: Outcome) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(outcome_json(outcome))
    return document
