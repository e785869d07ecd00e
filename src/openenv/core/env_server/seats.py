"""The sessions that clients hold on v1: their requests in turn, each carried out once, and what outlives a socket.

A seat is a session with what a client needs to keep it: a secret token, the number of the request that began last, and
its answer. The socket that a seat answers to may go and another one take its place; a request that comes again is
answered again, and not carried out again.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterable
from functools import partial
from typing import Any

from openenv.core.env_server.forking import Fork
from openenv.core.env_server.journal import Journal, JournalRecord
from openenv.core.env_server.journal.history import Row
from openenv.core.env_server.metrics import Ending
from openenv.core.env_server.protocol import encode_error_v1
from openenv.core.env_server.records import MemoryRecord
from openenv.core.env_server.recovery import Recovery, describe_environment, failure_of
from openenv.core.env_server.seat import Outlet, Seat
from openenv.core.env_server.session import Phase, Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.exceptions import (
    JournalError,
    RequestError,
    SessionLostError,
    SessionNotFoundError,
    UnauthorizedError,
)

logger = logging.getLogger(__name__)

_TOKEN_BYTES = 16
# Seconds within which whoever had a session rebuilt takes it up.
_HAND_OVER_S = 5.0


class Seats:
    """The seats of one server.

    Args:
        sessions: Where sessions are opened.
        max_message_bytes: Longest message that the server takes.
        journal: What sessions are rebuilt from after the process has ended; ``None`` lets them end with it.

    Attributes:
        window_s: Seconds for which a session is kept whose socket has gone.
        metrics: The figures of this process.
    """

    def __init__(self, sessions: Sessions, max_message_bytes: int, journal: Journal | None = None) -> None:
        self._sessions = sessions
        self._max_message_bytes = max_message_bytes
        self._journal = journal
        self._environment: str | None = None
        self._recovery = None if journal is None else Recovery(journal, sessions, self._describe)
        self._recovering: dict[str, asyncio.Task[Seat]] = {}
        self.window_s = sessions.limits.resume_window_s
        self.metrics = sessions.metrics
        self.metrics.count_queued = self._count_queued
        if journal is not None:
            journal.metrics = sessions.metrics
            journal.on_taken = self._taken_elsewhere
            journal.on_lost = self._beginnings_lost
            journal.on_mended = self._keep_lacking_snapshots
            journal.on_begun_anew = self._take_down_again
        self._seats: dict[str, Seat] = {}

    async def open(self, arguments: dict[str, Any], outlet: Outlet) -> Seat:
        """Open a session for a client, which may wait in line for its place.

        Args:
            arguments: See ``OpenArguments``.
            outlet: The client's socket.

        Raises:
            SessionCapacityError: Every place is taken.
            EnvironmentFactoryError: The environment could not be made.
        """
        session = await self._sessions.open(client=outlet.client, wait_s=arguments["wait_s"], connection=outlet)
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        record = await self._new_record(session, token)
        seat = self._seat(session, arguments["max_message_bytes"], record, token)
        seat.outlet = outlet
        return seat

    async def attach(self, session_id: str, arguments: dict[str, Any], outlet: Outlet) -> Seat:
        """Give a session to another socket of its client.

        Args:
            session_id: The session's id.
            arguments: See ``AttachArguments``.
            outlet: The socket.

        Raises:
            SessionNotFoundError: There is none of this id (any more).
            UnauthorizedError: The token is another session's.
            SessionLostError: It could not be rebuilt from the journal, or its client knows of more than happened.
            SessionCapacityError: There is no place for one that has to be rebuilt; it can be tried again.
            JournalError: The journal can't be reached, or another server has just taken it up; the same.
        """
        seat = await self._live(session_id, arguments["token"], arguments["answered"])
        if seat is None:
            seat = await self._recovered(session_id, arguments, outlet.client)
        else:
            self.metrics.resumed += 1
        seat.move(outlet)
        seat.session.take_up()
        seat.longest_answer = arguments["max_message_bytes"]
        return seat

    def abandon(self, seats: list[Seat], *, clean: bool) -> None:
        """Keep the sessions of a socket that has gone for as long as its client may take to come back.

        Args:
            seats: Those that answered to the socket.
            clean: Whether the client has said goodbye, and will not come back.
        """
        for seat in seats:
            seat.move(None)
            if clean or self.window_s == 0:
                seat.session.ending = Ending.DISCONNECTED
                seat.end()
            else:
                seat.session.away = True
                if seat.last_id == 0 and seat.session.phase is Phase.NEW:  # its client may not even know of it
                    self._sessions.let_yield(seat.session)
                seat.expire_after(self.window_s)

    def expire(self, seat: Seat) -> None:
        """End a session whose client has not come back."""
        name = seat.session.name
        told = {"session": name}
        logger.info("session %s closed: its client was away for %g s", name, self.window_s, extra=told)
        seat.session.ending = Ending.AWAY
        seat.end()

    async def fork(self, seat: Seat, count: int) -> list[Seat]:
        """Open sessions that continue from the state of another one, for the same client.

        Args:
            seat: The other one's; it makes no other request meanwhile.
            count: How many.

        Raises:
            SessionCapacityError: There is no place for all of them; none was opened.
            ForkError: The environment can't be forked.
        """
        sessions = await Fork(self._sessions, seat.session, seat.record.history).open(count)
        children = [self._forked(seat, session) for session in sessions]
        self.metrics.forked += len(children)
        for child in children:
            self._hand_over(child, seat.outlet)
        return children

    def fork_terms(self, children: Iterable[Seat]) -> str:
        """Write what the client is told with sessions that were forked, as JSON."""
        named = ",".join(f'{{"session":"{seat.session.id}","token":"{seat.token}"}}' for seat in children)
        return (
            f'{{"sessions":[{named}],"max_message_bytes":{self._max_message_bytes},'
            f'"resume_window_s":{self.window_s:g}}}'
        )

    @property
    def keeps_journal(self) -> bool:
        """Whether sessions are taken down in a journal."""
        return self._journal is not None

    @property
    def waits_for_record(self) -> bool:
        """Whether putting something on record lets time pass in which others can be answered."""
        return self._journal is not None and not self._journal.writes_at_once

    async def put_on_record(self) -> None:
        """Put on record what is about to be answered, where there is a journal and it can be written."""
        if self._journal is not None:
            await self._journal.commit()

    def _seat(
        self, session: Session, longest_answer: int | None, record: MemoryRecord | JournalRecord, token: str
    ) -> Seat:
        seat = Seat(self, session, longest_answer, record, token)
        session.record = record
        if not session.closed:  # which it may be after all, by its idle timeout
            self._seats[session.id] = seat
            session.on_end = partial(self._ended, seat)
        return seat

    def _ended(self, seat: Seat) -> None:
        del self._seats[seat.session.id]
        if seat.idle and seat.outlet is not None:  # else it has something to answer yet
            seat.outlet.left(seat)
        if seat.session.ending is not Ending.SHUTDOWN:  # which leaves it to be recovered
            seat.record.ended(f"{seat.session.ending}")

    async def _new_record(self, session: Session, token: str) -> MemoryRecord | JournalRecord:
        """Begin the record of a session that was just opened; without the journal, where that can't be opened."""
        if self._journal is None:
            return MemoryRecord()
        try:
            await self._journal.start()
            return self._journal.add(session.id, token, await self._describe(session))
        except JournalError:  # of which the log knows
            return MemoryRecord(recoverable=False)
        except BaseException:
            session.ending = Ending.FAILED
            self._sessions.close(session)
            raise

    def _forked(self, seat: Seat, session: Session) -> Seat:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        return self._seat(session, seat.longest_answer, self._child_record(seat, session.id, token), token)

    def _child_record(self, seat: Seat, session_id: str, token: str) -> MemoryRecord | JournalRecord:
        if isinstance(seat.record, MemoryRecord):
            return MemoryRecord(seat.record)
        assert self._journal is not None
        assert self._environment is not None
        record = self._journal.add_child(
            seat.record.number,
            session_id,
            token,
            self._environment,
            seeded=seat.record.seeded,
            last_id=seat.last_id - 1,
            first_id=1,
        )
        if not seat.record.recoverable:
            record.lose_beginning()
        return record

    def _hand_over(self, seat: Seat, outlet: Outlet | None) -> None:
        """Have a session answer to a socket or, where that has gone, wait for its client."""
        if outlet is None:
            self.abandon([seat], clean=False)
        else:
            seat.outlet = outlet
            outlet.joined(seat)

    async def _describe(self, session: Session) -> str:
        """Say what the environments are, which the first one is asked."""
        if self._environment is None:
            self._environment = await describe_environment(session)
        return self._environment

    async def _live(self, session_id: str, token: str, answered: int) -> Seat | None:
        """Find a session that this process holds, and no other process has taken up since."""
        seat = self._seats.get(session_id)
        if seat is None:
            return None
        if not secrets.compare_digest(seat.token.encode(), token.encode(errors="replace")):
            raise UnauthorizedError("The token is not this session's.")
        if self._journal is not None:
            await self._journal.check()
            seat = self._seats.get(session_id)
            if seat is None:
                return None
        if answered > seat.last_id:
            raise SessionLostError(f"its client had the answer to request {answered}, and its last was {seat.last_id}.")
        return seat

    def _taken_elsewhere(self, numbers: frozenset[int]) -> None:
        """Give up sessions that other servers have taken up, by their numbers in the journal."""
        for seat in list(self._seats.values()):
            if isinstance(seat.record, JournalRecord) and seat.record.number in numbers:
                name = seat.session.name
                logger.warning("session %s was taken up by another server", name, extra={"session": name})
                seat.session.ending = Ending.REPLACED
                self.release(seat)
                seat.lose()

    def _beginnings_lost(self, numbers: frozenset[int] | None) -> None:
        """Learn which sessions can't be rebuilt any more, by their numbers in the journal; ``None`` for all."""
        lost = [seat for seat in self._seats.values() if seat.last_id > 0 and _is_recorded_as(seat, numbers)]
        for seat in lost:
            seat.lose_beginning()
            name = seat.session.name
            logger.warning(
                "session %s could not be rebuilt from the journal if this process ended now; it can be again after its "
                "next reset%s",
                name,
                " or snapshot" if seat.session.can_snapshot else " that names a seed",
                extra={"session": name},
            )

    def _take_down_again(self) -> None:
        """Take down the sessions that are open in a journal that has just been made anew."""
        assert self._journal is not None
        for seat in self._seats.values():
            if isinstance(seat.record, JournalRecord) and self._environment is not None:
                session_id = seat.session.id
                self._journal.add_again(seat.record, session_id, seat.token, self._environment, seat.last_id)
                seat.keep_snapshot_soon()

    def _keep_lacking_snapshots(self) -> None:
        """Take snapshots of the sessions that can't be rebuilt without."""
        for seat in self._seats.values():
            if not seat.record.recoverable:
                seat.keep_snapshot_soon()

    async def _recovered(self, session_id: str, arguments: dict[str, Any], client: str | None) -> Seat:
        """Rebuild a session from the journal; whoever asks for it meanwhile gets the same one."""
        if self._recovery is None:
            raise SessionNotFoundError(session_id, "There is no such session (any more); open one.")
        row = await self._recovery.check(session_id, arguments["token"])
        if session_id in self._seats:  # rebuilt while the journal was asked
            return self._seats[session_id]
        recovering = self._recovering.get(session_id)
        if recovering is None:
            recovering = asyncio.get_running_loop().create_task(self._recover(row, arguments, client))
            self._recovering[session_id] = recovering
            recovering.add_done_callback(partial(self._no_more_recovering, session_id))
        return await asyncio.shield(recovering)

    def _no_more_recovering(self, session_id: str, task: "asyncio.Task[Seat]") -> None:
        del self._recovering[session_id]
        if not task.cancelled() and task.exception() is not None:  # which all who asked may have gone and not hear of
            self.metrics.recoveries_failed[failure_of(task.exception())] += 1

    async def _recover(self, row: Row, arguments: dict[str, Any], client: str | None) -> Seat:
        assert self._recovery is not None
        token: str = arguments["token"]
        session, record, last_id, last_answer = await self._recovery.recover(row, token, client, arguments["answered"])
        seat = self._seat(session, arguments["max_message_bytes"], record, token)
        seat.last_id, seat.last_answer = last_id, last_answer
        seat.expire_after(max(self.window_s, _HAND_OVER_S))
        self.metrics.recovered += 1
        return seat

    def error(self, error: RequestError, request_id: int | None, session_id: str | None) -> str:
        """Write an error down as an answer, and count it."""
        self.metrics.errors[error.code] += 1
        return encode_error_v1(error, request_id, session_id)

    def _count_queued(self) -> int:
        return sum(seat.queued for seat in self._seats.values())

    def release(self, seat: Seat) -> None:
        """Give the session's place back, although it still works."""
        self._sessions.release(seat.session)

    def close(self, seat: Seat) -> None:
        """End the session."""
        if seat.outlet is not None:
            seat.outlet.left(seat)
        self._sessions.close(seat.session)


def _is_recorded_as(seat: Seat, numbers: frozenset[int] | None) -> bool:
    """Whether a session goes by one of these numbers in the journal, and could be rebuilt from it so far."""
    record = seat.record
    if not isinstance(record, JournalRecord) or not record.recoverable:
        return False
    return numbers is None or record.number in numbers
