"""Recovery of sessions from the journal, after their process has ended."""

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from openenv.core.env_server.history import Journal, JournalRecord, hashed
from openenv.core.env_server.history.entries import History, names_seed
from openenv.core.env_server.history.rows import JournalRow
from openenv.core.env_server.metrics import Ending
from openenv.core.env_server.resumption.replay import rebuild
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.exceptions import (
    AcquiredElsewhereError,
    EnvironmentFactoryError,
    JournalError,
    RequestError,
    SessionCapacityError,
    SessionLostError,
    SessionNotFoundError,
    UnauthorizedError,
)
from openenv.core.wire.arrays import Written, from_portable

logger = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """Recovered session.

    Attributes:
        session: The session.
        record: The session's record from now on.
        last_id: Id of the last request.
        last_answer: Answer to the last request.
    """

    session: Session
    record: JournalRecord
    last_id: int
    last_answer: Written | None


class Recovery:
    """Recovery of sessions from a journal.

    Args:
        journal: The journal.
        sessions: Opens the sessions.
        describe: Describes a session's environment; see ``describe_environment``.
    """

    def __init__(
        self, journal: Journal, sessions: SessionManager, describe: Callable[[Session], Awaitable[str]]
    ) -> None:
        self._journal = journal
        self._sessions = sessions
        self._describe = describe

    async def check(self, session_id: str, token: str) -> JournalRow:
        """Return the journal's row of a session, if the session may be recovered.

        Raises:
            SessionNotFoundError: The journal has no session of this id (any more).
            UnauthorizedError: The token is not the session's.
            SessionLostError: The session has ended.
            JournalError: The journal can't be read.
        """
        row = await self._journal.find(session_id)
        if row is None:
            raise SessionNotFoundError(session_id, "There is no such session (any more); open one.")
        if not hmac.compare_digest(row.token, hashed(token)):
            raise UnauthorizedError("The token is not this session's.")
        if row.ended is not None:
            raise SessionLostError(f"it has ended: {row.ended}.", "ended")
        return row

    async def recover(self, row: JournalRow, token: str, client: str | None, answered: int) -> Recovered:
        """Recover a session.

        Args:
            row: The session's row in the journal.
            token: The client's token.
            client: Address of the client, as in ``access.peer.peer_address``.
            answered: Id of the last request whose answer the client has.

        Raises:
            SessionLostError: The session can't be rebuilt; the message says why.
            SessionCapacityError: No slot is free.
            AcquiredElsewhereError: Another server has resumed the session at the same time.
            JournalError: The journal can't be read or written.
        """
        session = await self._sessions.open(client=client, session_id=row.id)
        try:
            history = await self._journal.acquire(row)
            last_id, last_answer = _where_it_stood(history, answered)
            await self._rebuild(session, row, history)
            record = self._journal.add_child(
                row.number,
                row.id,
                token,
                row.environment,
                seeded=_was_seeded(history),
                last_id=last_id,
                first_id=last_id + 1,
            )
            self._journal.end(row.number, "it was recovered")
            await self._journal.commit()
            if self._journal.is_acquired(record.number):
                raise AcquiredElsewhereError
        except BaseException as error:
            self._sessions.close(session, Ending.FAILED)
            if isinstance(error, SessionLostError):
                about = {"session": session.name, "code": error.code}
                logger.warning("session %s could not be recovered: %s", session.name, error.reason, extra=about)
            raise
        count = len(history.entries)
        named = {"session": session.name}
        logger.info("session %s recovered, with %d requests repeated", session.name, count, extra=named)
        return Recovered(session, record, last_id, last_answer)

    async def _rebuild(self, session: Session, row: JournalRow, history: History) -> None:
        described = await self._describe(session)
        if not _is_same(row.environment, described):
            raise SessionLostError(f"the server now has {described}, and had {row.environment} then.", "environment")
        await rebuild(session, history)


def _where_it_stood(history: History, answered: int) -> tuple[int, Written | None]:
    """Return the id of the last request that counts, and its answer."""
    if answered > history.last_id:
        raise SessionLostError(
            f"its client had the answer to request {answered}, and the journal ends with request "
            f"{history.last_id}; what came after could not be written, or had not reached the disk."
        )
    if history.last_type == "fork" and answered < history.last_id:
        # The answer contained the tokens of the new sessions, which are not recorded: the client forks again.
        return history.last_id - 1, None
    return history.last_id, None if history.last_answer is None else from_portable(history.last_answer)


def _was_seeded(history: History) -> bool:
    """Return whether the environment may still draw random numbers from the seed of an earlier reset."""
    return history.checkpoint is not None or any(names_seed(entry.request) for entry in history.entries)


def failure_of(error: BaseException | None) -> str:
    """Return the key of a failed recovery in ``Metrics.recoveries_failed``."""
    match error:
        case SessionLostError(kind=kind):
            return kind
        case AcquiredElsewhereError():
            return "elsewhere"
        case SessionCapacityError():
            return "no_place"
        case EnvironmentFactoryError():
            return "environment"
        case JournalError():
            return "unreadable"
        case _:
            return "other"


def _is_same(recorded: str, described: str) -> bool:
    """Return whether an environment on record is the one that was described; one without its manifest may be."""
    before, manifest, _ = described.partition(_MANIFEST)
    return recorded == described or (manifest not in recorded and recorded == f"{before})")


_DESCRIBING = ("name", "version")
# Begins what the manifest says, which older journals lack.
_MANIFEST = "; openenv.yaml: "


async def describe_environment(session: Session, manifest: Mapping[str, str]) -> str:
    """Return a description of a session's environment, which differs with class, name and version.

    Args:
        session: The session.
        manifest: Name and version of the environment's manifest, those that it has. An author who changes the version
            there changes it, whatever ``get_metadata`` says.
    """
    try:
        metadata = await session.metadata()
    except RequestError as error:
        logger.debug("the environment can't say what it is: %s", error.message)
        metadata = {}
    about = metadata if isinstance(metadata, dict) else {key: getattr(metadata, key, None) for key in _DESCRIBING}
    said, written = (f"name {each.get('name')}, version {each.get('version')}" for each in (about, manifest))
    described = f"{session.info().environment_type} ({said}{_MANIFEST}{written if manifest else 'none'})"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in described)
