"""Replay of an episode on a fresh environment, which shows whether the environment does the same again."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import from_json

from openenv.core.env_server.execution.runner import finished
from openenv.core.env_server.metrics import Transport
from openenv.core.env_server.sessions.session import Session
from openenv.core.exceptions import RequestError
from openenv.core.wire.errors import error_data
from openenv.core.wire.redaction import secret_values, without_secrets
from openenv.traces.comparing import Difference, differences
from openenv.traces.episodes import Entry


def replay(entries: Iterable[Entry], app: Any, leave_out: Sequence[str] = ()) -> list[Difference]:
    """Play the requests of an episode again, and compare each answer with the one on record.

    Args:
        entries: Entries of the episode, as from ``TraceFile.entries``.
        app: Application of the environment, as from ``create_app``; nothing is served.
        leave_out: Paths of fields that are not compared, such as ``observation.took_ms``: measured times differ.

    Returns:
        A comparison for each entry; the second entry of each is the replayed one. Fields that the record leaves out
        are not compared. Where an action lacks some, the environment is sent the action without them, and may do
        something else.

    Raises:
        OpenEnvError: The environment can't be created.

    Example::

        with traces.open("traces.db") as file:
            assert all(step.same for step in traces.replay(file.entries("1-1"), create_app(CatchEnvironment)))
    """
    recorded = list(entries)
    return list(differences(recorded, asyncio.run(_replayed(recorded, app)), leave_out))


async def _replayed(entries: Iterable[Entry], app: Any) -> list[Entry]:
    server, sessions = app.state.openenv_server, app.state.openenv_sessions
    await server.start()
    try:
        # The legacy transport ignores arguments that the environment does not accept, as some transports do.
        session = await sessions.open(transport=Transport.LEGACY)
        try:
            return [await _repeated(session, entry) for entry in entries]
        finally:
            sessions.close(session)
    finally:
        await server.close()


async def _repeated(session: Session, entry: Entry) -> Entry:
    try:
        written: Any = await finished(session.handle(entry.kind, entry.request))
        answer = from_json(written if isinstance(written, str) else written.nested())
        failed = False
    except RequestError as error:
        answer, failed = error_data(error), True
    return replace(entry, answer=without_secrets(answer, secret_values()), failed=failed)
