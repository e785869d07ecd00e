"""Registry of the resumable sessions of a server, on v1.

A resumable session has a secret token, the id of the request that started last, and the answer to that request. When
its socket has closed, the client resumes the session on another socket; a repeated request gets the same answer, and is
not carried out again.
"""

import asyncio
import logging
import secrets
from functools import partial
from typing import Any

from openenv.core.env_server.history import Journal, JournalRecord
from openenv.core.env_server.history.record import MemoryRecord, RecordMemory
from openenv.core.env_server.history.rows import JournalRow
from openenv.core.env_server.metrics import Ending
from openenv.core.env_server.resumption.fork import Fork
from openenv.core.env_server.resumption.recovery import Recovery, describe_environment, failure_of
from openenv.core.env_server.resumption.resumable_session import ResumableSession, SessionConnection
from openenv.core.env_server.sessions.about import About
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.state import Phase
from openenv.core.exceptions import (
    JournalError,
    SessionLostError,
    SessionNotFoundError,
    UnauthorizedError,
)
from openenv.core.wire.actions import ActionColumn
from openenv.core.wire.messages import Answer

logger = logging.getLogger(__name__)

_TOKEN_BYTES = 16
# Minimum time for a client to resume a session that was recovered for it.
_HAND_OVER_S = 5.0
_NO_SESSION = "There is no such session (any more); open one."


class ResumableSessions:
    """Registry of the resumable sessions of one server.

    Args:
        sessions: Opens the sessions.
        max_message_bytes: The server's limit on a message, in bytes.
        journal: Journal for recovery after the process has ended; ``None`` if sessions end with the process.

    Attributes:
        journal: As above.
        actions: Validates the actions of several sessions together.
        window_s: Resume window: seconds for which a session without a socket is kept.
        metrics: Metrics of this process.
    """

    def __init__(self, sessions: SessionManager, max_message_bytes: int, journal: Journal | None = None) -> None:
        self._sessions = sessions
        self._max_message_bytes = max_message_bytes
        self.journal = journal
        self._record_memory = RecordMemory()
        self._about = About(sessions, sessions.factory.name)
        self._environment: str | None = None
        self._recovery = None if journal is None else Recovery(journal, sessions, self._describe)
        self._recovering: dict[str, asyncio.Task[ResumableSession]] = {}
        self.window_s = sessions.limits.resume_window_s
        self.metrics = sessions.metrics
        self.metrics.watch_queued(self._count_queued)
        if journal is not None:
            journal.report_to(
                sessions.metrics,
                on_acquired=self._acquired_elsewhere,
                on_lost=self._beginnings_lost,
                on_restored=self._record_again,
            )
        self.actions = ActionColumn(sessions.types.action)
        self._resumable: dict[str, ResumableSession] = {}

    async def open(self, arguments: dict[str, Any], connection: SessionConnection) -> ResumableSession:
        """Open a session for a client, waiting in the queue for a slot if necessary.

        Args:
            arguments: See ``OpenArguments``.
            connection: The client's connection.

        Raises:
            SessionCapacityError: No slot is free.
            EnvironmentFactoryError: The environment could not be created.
        """
        session = await self._sessions.open(client=connection.client, wait_s=arguments["wait_s"], connection=connection)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        record = await self._new_record(session, token)
        resumable = self._add(session, token, record, arguments["max_message_bytes"])
        resumable.join(connection)
        return resumable

    async def attach(
        self, session_id: str, arguments: dict[str, Any], connection: SessionConnection
    ) -> ResumableSession:
        """Resume a session on another connection of its client; recover it from the journal if necessary.

        Args:
            session_id: Id of the session.
            arguments: See ``AttachArguments``.
            connection: The connection.

        Raises:
            SessionNotFoundError: No session has this id (any more).
            UnauthorizedError: The token is not the session's.
            SessionLostError: The session could not be recovered, or lacks requests whose answers the client has.
            SessionCapacityError: No slot is free for a recovery; the client can retry.
            JournalError: The journal can't be reached, or another server has just resumed the session; the client can
                retry.
        """
        resumable = await self._live(session_id, arguments["token"], arguments["answered"])
        if resumable is None:
            resumable = await self._recovered(session_id, arguments, connection.client)
        else:
            self.metrics.resumed += 1
        resumable.attach(connection, arguments["max_message_bytes"])
        return resumable

    def named(self, name: str) -> ResumableSession | None:
        """Return the session of a public name; ``None`` where there is none on v1."""
        return next((found for found in self._resumable.values() if found.session.name == name), None)

    async def fork_for(self, original: ResumableSession, client: str | None) -> tuple[ResumableSession, Answer | None]:
        """Open a session that continues from the state of another one, for another client, which attaches to it.

        Args:
            original: The other session.
            client: Address of the client.

        Returns:
            The session, and the last answer of the other one at the time of the fork, if it had any.

        Raises:
            SessionNotFoundError: The other session has ended.
            SessionCapacityError: No slot is free.
            ForkError: The environment can't be forked.
        """
        forked, last_answer = await original.between_requests(partial(self._fork_now, original, client))
        if self.journal is not None:
            try:
                # As before every answer on v1: a client knows of what is on record. While the journal can't be written,
                # as on a full disk, the session lives in this process alone, and is recorded again afterwards.
                await self.journal.commit()
            except BaseException:
                forked.end(Ending.FAILED)
                raise
        return forked, last_answer

    async def _fork_now(self, original: ResumableSession, client: str | None) -> tuple[ResumableSession, Answer | None]:
        (session,) = await Fork(self._sessions, original.session, original.record.history, client).open(1)
        # Before the next request, which the copy does not have.
        forked = self._forked(original, session, original.last_id)
        self.metrics.forked += 1
        forked.expire_after(self._expire, max(self.window_s, _HAND_OVER_S))
        return forked, original.last_answer

    def abandon(self, sessions: list[ResumableSession], *, clean: bool) -> None:
        """Detach the sessions of a closed socket, and keep them for the resume window.

        Args:
            sessions: The socket's sessions.
            clean: Whether the client closed the socket on purpose; the sessions end then.
        """
        for resumable in sessions:
            try:
                self._abandon(resumable, clean=clean)
            except Exception:  # the other sessions would keep their slots forever
                name = resumable.session.name
                logger.exception("could not detach session %s", name, extra={"session": name})

    def terms(self, resumable: ResumableSession) -> str:
        """Return the ``data`` of the answer to ``open`` or ``attach``, as JSON."""
        return (
            f'{{"max_message_bytes":{self._max_message_bytes},"token":"{resumable.token}",'
            f'"resume_window_s":{self.window_s:g},"last_id":{resumable.last_id}}}'
        )

    def _abandon(self, resumable: ResumableSession, *, clean: bool) -> None:
        if clean or self.window_s == 0:
            resumable.end(Ending.DISCONNECTED)
            return
        resumable.detach(self._expire, self.window_s)
        if _is_untouched(resumable):  # the client may not have its id
            self._sessions.allow_eviction(resumable.session)

    def _expire(self, resumable: ResumableSession) -> None:
        """End a session that was not resumed in time."""
        name = resumable.session.name
        log_fields = {"session": name}
        logger.info("session %s closed: its client was away for %g s", name, self.window_s, extra=log_fields)
        resumable.end(Ending.AWAY)

    async def _fork(self, original: ResumableSession, count: int) -> str:
        """Open sessions that continue from the state of another session, for the same client.

        Args:
            original: The other session, which carries out no other request meanwhile.
            count: Number of new sessions.

        Returns:
            The ``data`` of the answer to ``fork``, as JSON.

        Raises:
            SessionCapacityError: Too few slots are free; no session was opened.
            ForkError: The environment can't be forked.
        """
        sessions = await Fork(self._sessions, original.session, original.record.history).open(count)
        # The last request is the fork itself.
        children = [self._forked(original, session, original.last_id - 1) for session in sessions]
        self.metrics.forked += len(children)
        for child in children:
            self._hand_over(child, original.connection)
        named = ",".join(f'{{"session":"{child.session.id}","token":"{child.token}"}}' for child in children)
        return (
            f'{{"sessions":[{named}],"max_message_bytes":{self._max_message_bytes},'
            f'"resume_window_s":{self.window_s:g}}}'
        )

    def _add(
        self,
        session: Session,
        token: str,
        record: MemoryRecord | JournalRecord,
        longest_answer: int | None,
        last_id: int = 0,
        last_answer: Answer | None = None,
    ) -> ResumableSession:
        resumable = ResumableSession(
            session,
            self._sessions,
            token,
            record,
            longest_answer=longest_answer,
            fork=self._fork,
            on_close=self._remove,
            takes_checkpoints=self.journal is not None,
            last_id=last_id,
            last_answer=last_answer,
        )
        if not session.closed:  # by its idle timeout
            self._resumable[session.id] = resumable
        return resumable

    def _remove(self, resumable: ResumableSession) -> None:
        del self._resumable[resumable.session.id]

    async def _new_record(self, session: Session, token: str) -> MemoryRecord | JournalRecord:
        """Create the record of a new session: in the journal or, if that can't be opened, in memory."""
        if self.journal is None:
            return MemoryRecord(self._record_memory)
        try:
            await self.journal.start()
            return self.journal.add(session.id, token, await self._describe(session))
        except JournalError:  # logged by the journal
            return MemoryRecord(self._record_memory, recoverable=False)
        except BaseException:
            self._sessions.close(session, Ending.FAILED)
            raise

    def _forked(self, original: ResumableSession, session: Session, last_id: int) -> ResumableSession:
        """Add a session that continues another one from the state after the request of this id."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        record = self._child_record(original, session.id, token, last_id)
        return self._add(session, token, record, original.longest_answer)

    def _child_record(
        self, original: ResumableSession, session_id: str, token: str, last_id: int
    ) -> MemoryRecord | JournalRecord:
        if isinstance(original.record, MemoryRecord):
            return MemoryRecord(self._record_memory, original.record)
        assert self.journal is not None
        assert self._environment is not None
        record = self.journal.add_child(
            original.record.number,
            session_id,
            token,
            self._environment,
            seeded=original.record.seeded,
            last_id=last_id,
            first_id=1,
        )
        if not original.record.recoverable:
            record.mark_unrecoverable()
        return record

    def _hand_over(self, resumable: ResumableSession, connection: SessionConnection | None) -> None:
        """Attach a session to a connection or, if that has closed, keep the session for its client."""
        if connection is None:
            self.abandon([resumable], clean=False)
        else:
            resumable.join(connection)
            connection.joined(resumable)

    async def _describe(self, session: Session) -> str:
        """Return the description of the environment, from the first session."""
        if self._environment is None:
            self._environment = await describe_environment(session, self._about.manifest)
        return self._environment

    async def _live(self, session_id: str, token: str, answered: int) -> ResumableSession | None:
        """Return a session of this process, unless another process has resumed it since."""
        resumable = self._resumable.get(session_id)
        if resumable is None:
            return None
        if not secrets.compare_digest(resumable.token.encode(), token.encode(errors="replace")):
            raise UnauthorizedError("The token is not this session's.")
        if self.journal is not None:
            await self.journal.check()
            resumable = self._resumable.get(session_id)
            if resumable is None:
                return None
        if resumable.is_ending:
            raise SessionNotFoundError(session_id, _NO_SESSION)
        if answered > resumable.last_id:
            raise SessionLostError(
                f"its client had the answer to request {answered}, and its last was {resumable.last_id}."
            )
        return resumable

    def _acquired_elsewhere(self, numbers: frozenset[int]) -> None:
        """End the sessions that other servers have resumed, by their numbers in the journal."""
        for resumable in list(self._resumable.values()):
            if isinstance(resumable.record, JournalRecord) and resumable.record.number in numbers:
                name = resumable.session.name
                logger.warning("session %s was resumed by another server", name, extra={"session": name})
                resumable.revoke()

    def _beginnings_lost(self, numbers: frozenset[int] | None) -> None:
        """Mark sessions that the journal can't rebuild any more, by their numbers in the journal; ``None`` for all."""
        lost = [
            resumable
            for resumable in self._resumable.values()
            if not _is_untouched(resumable) and _is_recorded_as(resumable, numbers)
        ]
        for resumable in lost:
            resumable.mark_unrecoverable()
            name = resumable.session.name
            logger.warning(
                "session %s could not be rebuilt from the journal if this process ended now; it can be again after its "
                "next reset%s",
                name,
                " or snapshot" if resumable.session.can_snapshot else " that names a seed",
                extra={"session": name},
            )

    def _record_again(self) -> None:
        """Record the open sessions again, after the journal could not be written or was created again."""
        assert self.journal is not None
        for resumable in self._resumable.values():
            if isinstance(resumable.record, JournalRecord) and self._environment is not None:
                self.journal.add_again(
                    resumable.record,
                    resumable.session.id,
                    resumable.token,
                    self._environment,
                    is_untouched=_is_untouched(resumable),
                )
                resumable.keep_checkpoint_soon()

    async def _recovered(self, session_id: str, arguments: dict[str, Any], client: str | None) -> ResumableSession:
        """Recover a session from the journal; concurrent calls for the same session share one recovery."""
        if self._recovery is None:
            raise SessionNotFoundError(session_id, _NO_SESSION)
        row = await self._recovery.check(session_id, arguments["token"])
        if session_id in self._resumable:  # recovered during the check
            return self._resumable[session_id]
        recovering = self._recovering.get(session_id)
        if recovering is None:
            recovering = asyncio.get_running_loop().create_task(self._recover(row, arguments, client))
            self._recovering[session_id] = recovering
            recovering.add_done_callback(partial(self._no_more_recovering, session_id))
        return await asyncio.shield(recovering)

    def _no_more_recovering(self, session_id: str, task: "asyncio.Task[ResumableSession]") -> None:
        del self._recovering[session_id]
        if not task.cancelled() and task.exception() is not None:  # all clients that wait for it may be gone
            self.metrics.recoveries_failed[failure_of(task.exception())] += 1

    async def _recover(self, row: JournalRow, arguments: dict[str, Any], client: str | None) -> ResumableSession:
        assert self._recovery is not None
        token: str = arguments["token"]
        session, record, last_id, last_answer = await self._recovery.recover(row, token, client, arguments["answered"])
        answer = None if last_answer is None else Answer("", last_answer, last_id, session.id)
        resumable = self._add(session, token, record, arguments["max_message_bytes"], last_id, answer)
        resumable.expire_after(self._expire, max(self.window_s, _HAND_OVER_S))
        self.metrics.recovered += 1
        return resumable

    def _count_queued(self) -> int:
        return sum(resumable.queued for resumable in self._resumable.values())


def _is_untouched(resumable: ResumableSession) -> bool:
    """Return whether a session has had no request and no reset, nor the session that it was forked from."""
    return resumable.last_id == 0 and resumable.session.episode.phase is Phase.NEW


def _is_recorded_as(resumable: ResumableSession, numbers: frozenset[int] | None) -> bool:
    """Return whether a session has one of these numbers in the journal, and was recoverable so far."""
    record = resumable.record
    if not isinstance(record, JournalRecord) or not record.recoverable:
        return False
    return numbers is None or record.number in numbers
