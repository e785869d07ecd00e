"""Agent and its session. An agent can list and call tools; it never resets, steps or reads a state."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from openenv.core.env_server.metrics import Ending, Transport
from openenv.core.env_server.sessions.about import About
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.exceptions import EnvironmentFailedError, InvalidRequestError, SessionNotFoundError
from openenv.core.wire.answers import observation_json
from openenv.core.wire.array_fields import pixel_fields_of
from openenv.core.wire.media import Block, split
from openenv.core.wire.results import Outcome
from openenv.core.wire.types import ResetRequest

# Default idle timeout: people who chat with an agent pause for long.
_IDLE_TIMEOUT_S = 1800.0
_ENDED = "This session has ended: it was idle for too long, or it was closed. Connect again for a new one."
# Query parameters that are no arguments of the environment's reset.
_NO_TASK = ("session_id",)


@dataclass(frozen=True)
class Served:
    """Sessions and settings that a server's agents share.

    Attributes:
        sessions: Opens their sessions.
        name: Name of the environment.
        allows_state: Whether the server's mode lets agents read the state; the environment has to allow it, too.
        about: Description of the environment.
    """

    sessions: SessionManager
    name: str
    allows_state: bool
    about: About

    @property
    def shows_state(self) -> bool:
        """Whether agents may read the state, which may hold the answer: only if the environment's class allows it."""
        return self.allows_state and bool(getattr(self.sessions.factory.environment_class, "SHOWS_STATE", False))

    @property
    def idle_timeout_s(self) -> float:
        """Seconds without a request after which an agent's session is closed."""
        return self.sessions.limits.idle_timeout_s or _IDLE_TIMEOUT_S


class Observed(NamedTuple):
    """Observation in the form that a model reads.

    Attributes:
        text: The text.
        pictures: The pictures, as MCP's blocks of content.
    """

    text: str = ""
    pictures: tuple[Block, ...] = ()


class Agent:
    """Agent whose session is opened, and its episode started, by the first request that needs them.

    Args:
        served: Sessions and settings of the server.
        client: The agent's address, from ``access.peer.peer_address``.
        task: Arguments for the environment's ``reset``, from the address that the agent is configured with.
        session_id: An open session for the agent to use, which is neither reset nor closed here.

    Attributes:
        on_end: Called when the session ends before the agent disconnects.
    """

    def __init__(
        self, served: Served, client: str | None, task: Mapping[str, Any] | None = None, session_id: str | None = None
    ) -> None:
        self.on_end: Callable[[], None] | None = None
        self._served = served
        self._sessions = served.sessions
        self._client = client
        self._task = task or {}
        self._session_id = session_id
        self._opening = asyncio.Lock()
        self._own: Session | None = None
        self._gone = False
        self._first: Outcome | None = None

    async def session(self) -> Session:
        """Return the agent's session, ready for a tool call.

        Raises:
            SessionCapacityError: No slot is free.
            SessionNotFoundError: The session has ended.
            RequestError: The environment could not be made or reset.
        """
        if self._session_id is not None:
            session = self._sessions.get(self._session_id)
            session.resume()
            return session
        async with self._opening:
            if self._own is None:
                await self._open()
        if self._own is None or self._own.closed:
            raise SessionNotFoundError("", _ENDED)
        return self._own

    async def first_observation(self) -> Observed:
        """Return the reset's observation for a model; an empty one if the agent did not open the session itself.

        Raises:
            RequestError: As ``session`` does.
        """
        await self.session()
        return Observed() if self._first is None else _readable(self._first, self._sessions.types.observation)

    def keep(self) -> None:
        """Record activity of the agent, so that its session is not evicted."""
        if self._own is not None:
            self._own.resume()

    def let_yield(self) -> None:
        """Make the session evictable: the agent may have disconnected."""
        if self._own is not None:
            self._sessions.allow_eviction(self._own)

    def close(self, ending: Ending = Ending.CLOSED) -> None:
        """Close the session if it was opened for this agent."""
        self._gone = True
        if self._own is not None and not self._own.closed:
            self._own.on_end(None)
            self._sessions.close(self._own, ending)

    async def _open(self) -> None:
        if self._gone:
            return
        idle_s = self._served.idle_timeout_s
        session = await self._sessions.open(client=self._client, transport=Transport.MCP, idle_timeout_s=idle_s)
        try:
            self._first = await session.reset(self._task)
        except BaseException:
            self._sessions.close(session)
            raise
        session.on_end(self._ended)
        self._own = session
        self._close_if_gone()

    def _close_if_gone(self) -> None:
        """Close a session that was opened after the agent was closed."""
        if self._gone:
            self.close()

    def _ended(self, _ending: Ending) -> None:
        if self.on_end is not None:
            self.on_end()


def task_of(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a reset in a query, as in ``?seed=3&split=train&index=0``.

    Args:
        query: Names and values. Values that are JSON scalars are read as such; all others are texts.

    Raises:
        InvalidRequestError: An argument is invalid, such as a negative seed.
    """
    values = {name: value for name, value in query.items() if name not in _NO_TASK}
    further = {name: _value(text) for name, text in values.items() if name not in ResetRequest.model_fields}
    try:
        request = ResetRequest.model_validate({**values, **further})
    except ValidationError as error:
        faults = "; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in error.errors())
        raise InvalidRequestError(f"The address of this server names a task that can't be: {faults}.") from None
    return request.model_dump(exclude_unset=True)


def _value(text: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return text


def _readable(outcome: Outcome, observation_class: type[BaseModel]) -> Observed:
    """Return an observation for a model: a single text as it is, other fields as JSON, pictures as blocks."""
    try:
        text = observation_json(outcome.observation)
    except (ValueError, TypeError) as error:
        raise EnvironmentFailedError(f"The observation cannot be sent as JSON: {error}") from error
    fields = from_json(text)
    if not isinstance(fields, dict):
        return Observed(text)
    if len(fields) > 1:  # metadata that is the only field may hold the task
        fields.pop("metadata", None)
    parts = split(fields, pixel_fields_of(observation_class))
    shown = {name: value for name, value in parts.value.items() if value not in (None, {}, [], "")}
    only = next(iter(shown.values()), None)
    text = only if len(shown) == 1 and isinstance(only, str) else to_json(shown or parts.value).decode()
    return Observed(text, tuple(parts.blocks))
