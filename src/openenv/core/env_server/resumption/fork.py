"""Forks: sessions that continue from the state of another session.

Three methods are tried in this order: the environment's own ``snapshot`` and ``restore``, ``copy.deepcopy``, and a
replay of the session's requests since the last reset that a replay can start from.
"""

from collections.abc import Awaitable, Callable

from openenv.core.env_server.history.entries import History
from openenv.core.env_server.metrics import Ending
from openenv.core.env_server.resumption.replay import rebuild
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.exceptions import (
    EnvironmentFailedError,
    ForkError,
    RequestError,
    SessionCapacityError,
    SessionLostError,
)


class Fork:
    """Fork of a session that carries out no request meanwhile.

    Args:
        sessions: Opens the new sessions.
        original: The session.
        history: Returns the session's history, for a replay.
        client: Address of the client of the new sessions; by default that of the session.
    """

    def __init__(
        self,
        sessions: SessionManager,
        original: Session,
        history: Callable[[], Awaitable[History]],
        client: str | None = None,
    ) -> None:
        self._sessions = sessions
        self._original = original
        self._history = history
        self._client = client or original.client

    async def open(self, count: int) -> list[Session]:
        """Open sessions that continue from the original's state, all or none.

        Args:
            count: Number of sessions.

        Raises:
            SessionCapacityError: Too few slots are free.
            ForkError: All three methods failed.
        """
        if self._sessions.factory.shared is not None:
            raise ForkError({"any way": "all sessions share one environment"})
        limit = self._sessions.limits.max_sessions
        if count >= limit:
            raise SessionCapacityError(self._sessions.capacity_status().active_sessions, limit)
        reasons: dict[str, str] = {}
        methods = {"snapshot and restore": self._restored, "copy.deepcopy": self._copied, "a replay": self._replayed}
        for name, method in methods.items():
            try:
                return await method(count)
            except SessionCapacityError:
                raise
            except SessionLostError as error:
                reasons[name] = error.reason
            except RequestError as error:
                reasons[name] = error.message
        raise ForkError(reasons)

    async def _restored(self, count: int) -> list[Session]:
        if not self._original.can_snapshot:
            raise EnvironmentFailedError("the environment does not have them")
        copies = await self._rebuilt(count, History([], await self._original.checkpoint()))
        for copy in copies:
            copy.continue_trace(self._original)
        return copies

    async def _copied(self, count: int) -> list[Session]:
        copies: list[Session] = []
        try:
            for _ in range(count):
                copy = await self._sessions.open(client=self._client, original=self._original)
                copies.append(copy)
                copy.episode.continue_from(self._original.episode.position)
                copy.continue_trace(self._original)
        except BaseException:
            self._give_up(copies)
            raise
        return copies

    async def _replayed(self, count: int) -> list[Session]:
        return await self._rebuilt(count, await self._history())

    async def _rebuilt(self, count: int, history: History) -> list[Session]:
        opened: list[Session] = []
        try:
            for _ in range(count):
                opened.append(await self._sessions.open(client=self._client))
                await rebuild(opened[-1], history)
        except BaseException:
            self._give_up(opened)
            raise
        return opened

    def _give_up(self, opened: list[Session]) -> None:
        for session in opened:
            self._sessions.close(session, Ending.FAILED)
