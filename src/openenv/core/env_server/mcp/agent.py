"""An agent, and the session that it plays in. It can list and call tools; it never resets, steps or reads a state."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from openenv.core.env_server.about import About
from openenv.core.env_server.media import Block, split
from openenv.core.env_server.metrics import Ending, Transport
from openenv.core.env_server.outcomes import Outcome
from openenv.core.env_server.protocol import observation_json
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.types import ResetRequest
from openenv.core.exceptions import EnvironmentFailedError, InvalidRequestError, SessionNotFoundError

# People who chat with an agent pause for long, unless the server says otherwise.
_IDLE_TIMEOUT_S = 1800.0
_ENDED = "This session has ended: nothing was asked of it for too long, or it was closed. Connect again for a new one."
# What of a query does not go to the environment's reset.
_NO_TASK = ("session_id",)


@dataclass(frozen=True)
class Served:
    """What a server's agents share.

    Attributes:
        sessions: Where their sessions are opened.
        name: Name of the environment.
        allows_state: Whether the server's mode lets them read the state; the author has to want it, too.
        about: What the environment is.
    """

    sessions: Sessions
    name: str
    allows_state: bool
    about: About

    @property
    def shows_state(self) -> bool:
        """Whether agents may read the state, which may hold the answer: only if the environment's class says so."""
        return self.allows_state and bool(getattr(self.sessions.factory.environment_class, "SHOWS_STATE", False))

    @property
    def idle_timeout_s(self) -> float:
        """Seconds without a request after which an agent is taken to have gone."""
        return self.sessions.limits.idle_timeout_s or _IDLE_TIMEOUT_S


class Observed(NamedTuple):
    """What a model is shown.

    Attributes:
        text: What it reads.
        pictures: What it sees, as MCP's blocks of content.
    """

    text: str = ""
    pictures: tuple[Block, ...] = ()


class Agent:
    """One agent. Its session is opened, and an episode begun, with the first request that needs them.

    Args:
        served: What it shares with others.
        client: Where it comes from, as in ``clients.client_of``.
        task: Arguments for the environment's ``reset``, as whoever has configured the agent has chosen them.
        session_id: A session that was opened elsewhere, for the agent to play in; it is neither reset nor closed here.

    Attributes:
        on_end: Called when its session ends before the agent goes.
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
        """Return its session, ready for a tool call.

        Raises:
            SessionCapacityError: There is no place for it.
            SessionNotFoundError: It has ended.
            RequestError: The environment could not be made or reset.
        """
        if self._session_id is not None:
            session = self._sessions.get(self._session_id)
            session.take_up()
            return session
        async with self._opening:
            if self._own is None:
                await self._open()
        if self._own is None or self._own.closed:
            raise SessionNotFoundError("", _ENDED)
        return self._own

    async def first_observation(self) -> Observed:
        """Return what the reset showed, as a model is to read it; nothing where the agent's session is another's.

        Raises:
            RequestError: As ``session`` does.
        """
        await self.session()
        return Observed() if self._first is None else _readable(self._first)

    def keep(self) -> None:
        """Learn that the agent is there."""
        if self._own is not None:
            self._own.take_up()

    def let_yield(self) -> None:
        """Give its session up to whoever needs the place: the agent may have gone."""
        if self._own is not None:
            self._sessions.let_yield(self._own)

    def close(self, ending: Ending = Ending.CLOSED) -> None:
        """End the session that was opened for it."""
        self._gone = True
        if self._own is not None and not self._own.closed:
            self._own.ending = ending
            self._own.on_end = None
            self._sessions.close(self._own)

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
        session.on_end = self._ended
        self._own = session
        self._close_if_gone()

    def _close_if_gone(self) -> None:
        """End a session that has come too late."""
        if self._gone:
            self.close()

    def _ended(self) -> None:
        if self.on_end is not None:
            self.on_end()


def task_of(query: Mapping[str, str]) -> dict[str, Any]:
    """Read the arguments of a reset off a query, as in ``?seed=3&split=train&index=0``.

    Args:
        query: Names and values. What is a number, ``true`` or the like in JSON is that; anything else is a text.

    Raises:
        InvalidRequestError: The seed is no number from 0, or the like.
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


def _readable(outcome: Outcome) -> Observed:
    """Write an observation for a model: a single text as it is, anything else as JSON; pictures as pictures."""
    try:
        text = observation_json(outcome.observation)
    except (ValueError, TypeError) as error:
        raise EnvironmentFailedError(f"The observation cannot be sent as JSON: {error}") from error
    fields = from_json(text)
    if not isinstance(fields, dict):
        return Observed(text)
    if len(fields) > 1:  # where there is nothing else, an author has nowhere else to put the task
        fields.pop("metadata", None)
    parts = split(fields)
    shown = {name: value for name, value in parts.value.items() if value not in (None, {}, [], "")}
    only = next(iter(shown.values()), None)
    text = only if len(shown) == 1 and isinstance(only, str) else to_json(shown or parts.value).decode()
    return Observed(text, tuple(parts.blocks))
