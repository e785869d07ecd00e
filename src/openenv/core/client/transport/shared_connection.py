"""The sessions of v1 that share a connection, and go on together on another one when it is lost.

What several of them ask at the same time leaves in one frame.
"""

import asyncio
import logging
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from openenv.core.client.transport.connection import CLOSE_TIMEOUT_S, Connection, ConnectionSettings
from openenv.core.client.transport.outbox import FULL_FRAME, Outbox
from openenv.core.client.transport.reconnect import Outage, refused_error, retry_after_s
from openenv.core.client.transport.resending import MOST_RESENDS, Resending
from openenv.core.client.transport.session import fail, given_up, parsed
from openenv.core.client.transport.shared_session import Terms, V1Link
from openenv.core.client.transport.waiter import Answer, Nobody, invalid_answer
from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    InvalidAnswerError,
    OpenEnvError,
    RequestGivenUpError,
)
from openenv.core.wire.messages import MessageType

if TYPE_CHECKING:
    from openenv.core.client.transport.pool import Hubs

logger = logging.getLogger(__name__)

# How much longer than the longest answer a frame may be: what the wire allows, and more for a server that counts a full
# frame in characters, of up to 4 bytes.
_FURTHER_BYTES = 5 * FULL_FRAME
_UNREADABLE = (
    "The connection was closed, since a frame on it could not be read, and the session is lost. The next call opens a "
    "new one."
)
# How long to try whether a server of a fleet can be reached again, before the fleet is asked for another one.
_SAME_SERVER_TIMEOUT_S = 3.0
# Types of answers that name a session, and are for the hub all the same.
_OF_THE_CONNECTION = (MessageType.OPENED, MessageType.ATTACHED)


@dataclass(eq=False)
class _Opening:
    """A session that is being opened.

    Attributes:
        message: What asks the server for it.
        link: Who waits for it.
        outbox: What it leaves by, on the connection that there is now.
        resends: How often it was sent again, on one connection after another.
    """

    message: bytes
    link: "asyncio.Future[V1Link]"
    outbox: Outbox
    resends: int = 0

    def send_again(self) -> None:
        """Send the message on the connection that there is now."""
        self.resends += 1
        self.outbox.post(self.message)


class _Attaching(NamedTuple):
    """A session that is being taken up.

    Attributes:
        link: The session.
        deadline_s: Until when a server is asked again that can't take it up for now, by the event loop's time.
    """

    link: V1Link
    deadline_s: float


class Hub:
    """Sessions of v1 that share a connection.

    When it is lost, the hub connects again, takes the sessions up, and sends again what was not answered. Sessions that
    the server does not keep are lost with their connection.

    Args:
        connection: The first connection.
        hubs: Those that it is one of, which live as long as any of them.
        settings: Where its client began, and how to connect to there again.

    Attributes:
        connection: The connection; during an outage the one that has gone.
        resending: What is sent again on it.
    """

    def __init__(self, connection: Connection, hubs: "Hubs", settings: ConnectionSettings) -> None:
        self.connection = connection
        self.hubs = hubs
        self._settings = settings
        self._links: dict[str, V1Link] = {}
        # Sessions that were given up, until the server has said that they are closed.
        self._leaving: dict[str, V1Link] = {}
        self._opening: dict[int, _Opening] = {}
        # Numbers of those that nobody waits for any more: the session that the server opens has to be ended.
        self._unwanted: set[int] = set()
        self._attaching: dict[int, _Attaching] = {}
        self._last_id = 0
        self._outbox = Outbox(connection)
        self.resending = Resending()
        # From a loss until the sessions are taken up; and until there is a connection, the next attempt to make one or
        # the one under way. No task waits for the next one, which a loop that is closed would leave pending.
        self._outage: Outage | None = None
        self._reconnecting: asyncio.Task[None] | asyncio.TimerHandle | None = None
        self._last_outage: Outage | None = None
        self._failure: OpenEnvError | None = None
        self._take_over(connection)

    def __len__(self) -> int:
        """Sessions that it has or is opening."""
        return len(self._links) + len(self._opening)

    @property
    def lives(self) -> bool:
        """Whether what is asked will be answered: it is connected, connects again, or will soon learn that it must."""
        return self._failure is None and self.connection.usable

    async def open(self, timeout_s: float | None, capacity_wait_s: float = 0.0) -> V1Link:
        """Open a session, or learn why the server opens none.

        Args:
            timeout_s: Seconds that the server may take, which has to make an environment; ``None`` for no limit.
            capacity_wait_s: Seconds to wait in line before that where every place is taken.

        Raises:
            ConnectionFailedError: The server did not answer.
            ConnectionLostError: The connection went.
            InvalidAnswerError: What came is no answer.
        """
        self._last_id = number = self._last_id + 1
        link: asyncio.Future[V1Link] = self.connection.loop.create_future()
        message = self._open_message(number, capacity_wait_s)
        self._opening[number] = _Opening(message, link, self._outbox)
        if self.connection.is_open or self._outage is None:  # else it is sent on the next connection
            self.post(message)
        try:
            async with asyncio.timeout(None if timeout_s is None else timeout_s + capacity_wait_s):
                return await link
        except BaseException as error:
            self._give_up(number, link)
            if isinstance(error, TimeoutError):
                raise ConnectionFailedError(
                    f"The server did not open a session within {timeout_s} s (message_timeout_s)."
                ) from error
            raise
        finally:
            self._close_if_unused()

    def post(self, message: bytes) -> None:
        """Send a message: at once where it is the first in the loop's turn, else with the turn's others."""
        self._outbox.post(message)

    def send(self, messages: list[bytes]) -> None:
        """Send messages in as few frames as make sense."""
        self._outbox.send(messages)

    def adopt(self, message: dict[str, Any], *, attached: bool) -> list[V1Link]:
        """Take the sessions that a fork has made.

        Args:
            message: The server's answer.
            attached: Whether the server answers them on the connection that there is now.

        Raises:
            InvalidAnswerError: It is none.
        """
        data = message.get("data")
        forked = data.get("sessions") if isinstance(data, dict) else None
        if not isinstance(forked, list) or not all(self._is_new_session(one) for one in forked):
            raise invalid_answer(MessageType.FORKED, message)
        links = [V1Link(self, one["session"], Terms.of(data, one["token"])) for one in forked]
        for link in links:
            link.attached = attached
            link.asked = True  # what was asked of the one that was forked
            self._links[link.session] = link
        if not attached:
            self._attach(links, self.connection.loop.time() + links[0].terms.window_s)
        return links

    def unclaimed(self, message: Any, *, attached: bool = True) -> None:
        """Take an answer that nobody waits for any more: sessions that it brings are ended."""
        if isinstance(message, dict) and message.get("type") == MessageType.FORKED:
            with suppress(InvalidAnswerError):
                for link in self.adopt(message, attached=attached):
                    link.drop()

    def drop(self, link: V1Link) -> None:
        """Have a session ended without waiting for it."""
        self._say_closed(link, Nobody())
        self.leave(link)

    async def end(self, link: V1Link) -> None:
        """End a session, and the connection with its last one."""
        reconnecting = self._reconnecting
        try:
            closed: asyncio.Future[Any] = self.connection.loop.create_future()
            if self._say_closed(link, closed):
                with suppress(OpenEnvError, TimeoutError):
                    async with asyncio.timeout(CLOSE_TIMEOUT_S):
                        await closed
                    self._leaving.pop(link.session, None)
        finally:
            self.leave(link)
        if not self and isinstance(reconnecting, asyncio.Task):
            await asyncio.wait([reconnecting])
        if not self.connection.usable:
            await self.connection.close()

    def abandon(self, link: V1Link) -> None:
        """End a session whose loop does not run: with the last one the connection, else when the loop runs again."""
        known = self._links.pop(link.session, None) is not None
        if not self or not self.connection.may_go_on:
            self.connection.abandon()
        if known and self.connection.may_go_on:
            self.connection.loop.call_soon_threadsafe(self._ended, link)

    def leave(self, link: V1Link) -> None:
        """Forget a session, telling everybody who waits, and close the connection with the last one."""
        if self._links.pop(link.session, None) is None:
            return
        link.usable = False
        self.resending.settle(link)
        self._close_if_unused()
        fail(link.unanswered(), given_up)

    def received(self, message: bytes) -> None:
        """Give the answers of a frame to those who asked."""
        document = parsed(message)
        for answer in document if isinstance(document, list) else [document]:
            self._deliver(answer)

    def lost(self) -> None:
        """Learn that the connection has gone: connect again for the sessions that the server keeps."""
        if self._reconnecting is not None:
            return
        self.connection.let_go()
        self._outbox.clear()
        self.resending.clear()
        self._attaching.clear()
        self._unwanted.clear()
        if not self.connection.may_be_replaced:
            self._fail(self.connection.lost_error())
            return
        for link in list(self._links.values()):
            if not (link.can_resume and link.usable):  # it ends with its connection, or is being ended
                self._lose(link, self.connection.lost_error())
                if link.can_resume:
                    self._leaving[link.session] = link
        if not self._links:
            self._fail(self.connection.lost_error())
            return
        for link in [*self._links.values(), *self._leaving.values()]:
            link.attached = False
        self._begin_outage()

    def lost_error(self) -> OpenEnvError:
        """Make the error for a request that comes after the end."""
        return self.connection.lost_error() if self._failure is None else copy(self._failure)

    def _take_over(self, connection: Connection) -> None:
        self.connection, self._outbox = connection, Outbox(connection)
        connection.protocol.max_message_size = self._settings.max_message_bytes + _FURTHER_BYTES
        connection.hand_over(self)

    def _open_message(self, number: int, capacity_wait_s: float) -> bytes:
        wait = b',"wait_s":%b' % to_json(capacity_wait_s) if capacity_wait_s > 0 else b""
        limit = self._settings.max_message_bytes
        return b'{"type":"open","id":%d,"data":{"max_message_bytes":%d%b}}' % (number, limit, wait)

    def _begin_outage(self) -> None:
        now, reason = self.connection.loop.time(), self.connection.end()
        if self._outage is not None:
            self._outage.begin_again(reason, now)
        else:
            window_s = max(link.terms.window_s for link in self._links.values())
            self._outage = Outage(reason, window_s, now, self._last_outage)
            logger.info("%s. Connecting again for %d sessions, for %g s", reason, len(self._links), window_s)
        self._reconnect_later(self._outage)

    def _reconnect_later(self, outage: Outage) -> None:
        loop = self.connection.loop
        pause_s = outage.pause_s(loop.time())
        if pause_s is None:
            self._fail(outage.error())
        else:
            self._reconnecting = loop.call_later(pause_s, self._begin_to_reconnect, outage)

    def _begin_to_reconnect(self, outage: Outage) -> None:
        if self.connection.orphaned:  # the process was forked with its loop: the sessions are the parent's
            self._fail(outage.error())
        else:
            self._reconnecting = self.connection.loop.create_task(self._reconnect(outage))

    async def _reconnect(self, outage: Outage) -> None:
        try:
            if self._settings.check_server is not None:
                self._settings.check_server()
            connection = await outage.connect(self._ways(), next(iter(self._links), ""), len(self._links))
        except OpenEnvError as error:
            self._fail(error)
        except BaseException:  # the loop ends, or nobody needs the connection any more
            self._fail(outage.error())
            raise
        else:
            if connection is None:
                self._reconnect_later(outage)
            else:
                self._resume_on(connection, outage)

    def _ways(self) -> list[ConnectionSettings]:
        """Say where to connect to again: to the same server and, in a fleet, to where the client began."""
        same = self.connection.settings
        if same.url == self._settings.url:
            return [same]
        return [replace(same, connect_timeout_s=min(same.connect_timeout_s, _SAME_SERVER_TIMEOUT_S)), self._settings]

    def _resume_on(self, connection: Connection, outage: Outage) -> None:
        """Take the sessions up on a new connection, and open those that were being opened."""
        self._reconnecting = None
        self._attaching.clear()
        self._take_over(connection)
        if not connection.is_open:  # it has gone already
            return
        self._attach([*self._links.values(), *self._leaving.values()], outage.deadline_s)
        for number, opening in list(self._opening.items()):
            self._open_again(number, opening, outage.reason)
        self._end_outage_when_attached()

    def _open_again(self, number: int, opening: _Opening, reason: str) -> None:
        if opening.resends >= MOST_RESENDS:
            del self._opening[number]
            fail([opening.link], partial(_not_opened, opening.resends + 1, reason))
        else:
            opening.outbox = self._outbox
            self.resending.add(opening)

    def _attach(self, links: list[V1Link], deadline_s: float) -> None:
        messages = []
        for link in links:
            self._last_id += 1
            self._attaching[self._last_id] = _Attaching(link, deadline_s)
            messages.append(link.attaching(self._last_id, self._settings.max_message_bytes))
        self.send(messages)

    def _attach_later(self, attaching: _Attaching, delay_s: float) -> None:
        """Ask again for a session that the server could not take up for now."""
        self._last_id += 1
        self._attaching[self._last_id] = attaching
        self.connection.loop.call_later(delay_s, self._attach_now, self.connection, self._last_id)

    def _attach_now(self, connection: Connection, number: int) -> None:
        attaching = self._attaching.get(number)
        if attaching is not None and connection is self.connection and connection.is_open:
            self.post(attaching.link.attaching(number, self._settings.max_message_bytes))

    def _end_outage_when_attached(self) -> None:
        outage = self._outage
        if self._attaching or self._reconnecting is not None:
            return
        self.resending.proceed()
        if outage is None:
            return
        self._outage, self._last_outage = None, outage
        logger.info("Connected again: %d sessions go on, %d were lost", len(self._links), outage.sessions_lost)

    def _deliver(self, message: Any) -> None:
        number = message.get("id") if isinstance(message, dict) else None
        if not isinstance(number, int):
            self._deliver_to_all(message)
            return
        session = message.get("session")
        if (session is None or message.get("type") in _OF_THE_CONNECTION) and self._deliver_here(number, message):
            return
        link = self._links.get(session) if isinstance(session, str) else None
        if link is not None:
            self._last_outage = None  # with which the next one has nothing to do, now that answers come
            link.take(number, message)
        else:
            self._deliver_to_nobody(number, message)

    def _deliver_to_nobody(self, number: int, message: dict[str, Any]) -> None:
        """Take an answer of a session that was given up."""
        for link in list(self._leaving.values()):
            if link.session == message.get("session") and link.close_id == number:
                del self._leaving[link.session]
        self.unclaimed(message)

    def _deliver_here(self, number: int, message: dict[str, Any]) -> bool:
        """Give an answer to whoever opens or takes up a session, if somebody does or did by this number."""
        opening = self._opening.pop(number, None)
        if opening is not None:
            self.resending.settle(opening)
            self._settle(opening.link, message)
        elif number in self._unwanted:
            self._unwanted.remove(number)
            with suppress(InvalidAnswerError):
                self.drop(self._opened(message))
        elif number in self._attaching:
            self._attached(self._attaching.pop(number), message)
        else:
            return message.get("type") == MessageType.ATTACHED or self._was_opened_by(number, message)
        return True

    def _was_opened_by(self, number: int, message: dict[str, Any]) -> bool:
        """Whether an answer only repeats that a session was opened."""
        session = message.get("session")
        link = self._links.get(session) if isinstance(session, str) else None
        return link is not None and link.opened_by == number

    def _attached(self, attaching: _Attaching, message: dict[str, Any]) -> None:
        """Go on with a session that the server has taken up, or learn why it has not."""
        delay_s = retry_after_s(message)
        remaining_s = attaching.deadline_s - self.connection.loop.time()
        if delay_s is not None and remaining_s > 0:
            self._attach_later(attaching, min(delay_s, remaining_s))
        elif message.get("type") == MessageType.ATTACHED:
            self._go_on(attaching.link, message)
        else:
            self._leaving.pop(attaching.link.session, None)
            self._lose(attaching.link, refused_error(self._reason, message))
        self._end_outage_when_attached()
        self._close_if_unused()

    def _go_on(self, link: V1Link, message: dict[str, Any]) -> None:
        """Have sent again what was not answered, or end a session that was given up meanwhile, or is now."""
        if link.was_resent_too_often:
            self._lose(link, RequestGivenUpError(MOST_RESENDS + 1, self._reason))
        if link.session in self._links:
            link.resume()
        elif link.closings > MOST_RESENDS:
            self._leaving.pop(link.session, None)
        else:
            link.attached, self._leaving[link.session] = True, link
            data = message.get("data")
            last_id = data.get("last_id") if isinstance(data, dict) else None
            self.post(link.closing(Nobody(), last_id if isinstance(last_id, int) else None))

    @property
    def _reason(self) -> str:
        """Why the last connection went, as the beginning of a sentence."""
        return "The connection was lost" if self._outage is None else self._outage.reason

    def _lose(self, link: V1Link, error: OpenEnvError) -> None:
        """Let go of a session, where it is still there, and tell why."""
        if self._links.pop(link.session, None) is not None:
            link.lose(error)
            if self._outage is not None:
                self._outage.sessions_lost += 1

    def _settle(self, opening: "asyncio.Future[V1Link]", message: Any) -> None:
        try:
            link = self._opened(message)
        except InvalidAnswerError as error:
            fail([opening], partial(copy, error))
            return
        if opening.done():  # cancelled just now, and whoever waited has not had its turn yet
            self.drop(link)
        else:
            opening.set_result(link)

    def _opened(self, message: Any) -> V1Link:
        """Make the session that the server has opened, or the one that says why there is none.

        Raises:
            InvalidAnswerError: It is neither.
        """
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == MessageType.ERROR:
            return V1Link(self, "", Terms(), refusal=message)
        if kind == MessageType.OPENED and isinstance(message.get("id"), int):
            session = message.get("session")
            if isinstance(session, str) and session not in self._links:
                link = self._links[session] = V1Link(self, session, Terms.of(message.get("data")))
                link.opened_by = message["id"]
                return link
        raise invalid_answer(MessageType.OPENED, message)

    def _is_new_session(self, forked: Any) -> bool:
        """Whether an entry of a fork's answer names a session that there is not yet."""
        session = forked.get("session") if isinstance(forked, dict) else None
        return isinstance(session, str) and session not in self._links and isinstance(forked.get("token"), str)

    def _give_up(self, number: int, opening: "asyncio.Future[V1Link]") -> None:
        """End the session that nobody waits for any more, now or when the server has opened it."""
        unanswered = self._opening.pop(number, None)
        if unanswered is not None:
            self.resending.settle(unanswered)
            self._unwanted.add(number)
        elif not opening.cancelled() and opening.exception() is None:
            self.drop(opening.result())

    def _say_closed(self, link: V1Link, closed: Answer) -> bool:
        """Tell the server that a session is over, now or when it is taken up; return whether it is told now."""
        if link.session not in self._links:
            return False
        self._leaving[link.session] = link
        told = link.attached and self.connection.is_open
        if told:
            self.post(link.closing(closed))
        elif self.resending.settle(link):  # what the server knows of it is seen when it is taken up
            self._attach([link], self.connection.loop.time() + link.terms.window_s)
        return told

    def _ended(self, link: V1Link) -> None:
        """Learn, as the loop runs again, that a session was ended meanwhile."""
        self._leaving[link.session] = link
        if link.attached and self.connection.is_open:
            self.post(link.closing(Nobody()))
        self._close_if_unused()

    def _fail(self, error: OpenEnvError) -> None:
        """Tell everybody who waits that no answer will come."""
        self._failure, self._outage, self._reconnecting = error, None, None
        openings, links = list(self._opening.values()), list(self._links.values())
        self._opening.clear()
        self._links.clear()
        self._leaving.clear()
        fail([opening.link for opening in openings], partial(copy, error))
        for link in links:
            link.lose(error)

    def _deliver_to_all(self, message: Any) -> None:
        """A frame that could not be read, by either side: nobody knows whose answer is missing."""
        openings = list(self._opening.values())
        self._opening.clear()
        for opening in openings:
            self._settle(opening.link, message)
        for link in list(self._links.values()):
            for answer in link.unanswered():
                if not answer.done():
                    answer.set_result(message)
                    link.usable = False  # which nobody else needs to be told
        self._fail(ConnectionLostError(_UNREADABLE))
        self.connection.retire()

    def _close_if_unused(self) -> None:
        if self:
            return
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            self._fail(given_up())
        elif self.connection.usable:
            self.connection.retire()


def _not_opened(sent: int, reason: str) -> ConnectionFailedError:
    return ConnectionFailedError(
        f"The server did not open a session: it was asked on {sent} connections, and each went before the answer came. "
        f"The last time: {reason}."
    )
