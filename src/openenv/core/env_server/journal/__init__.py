"""The record of every session of v1, from which a session is rebuilt when the server's process has ended.

``journal.py`` gathers what sessions do and commits it in batches (``batch.py``); ``record.py`` is one session's part in
it. A *store* (``store.py``) is where batches are kept: a file (``sqlite.py``) or a database that servers share
(``postgres.py``). What a session did is read again by ``reader.py``, after ``claims.py`` has made sure that nobody else
holds it. ``upkeep.py`` removes what is too old, or too much.
"""

from openenv.core.env_server.journal.journal import Journal
from openenv.core.env_server.journal.record import JournalRecord, hashed

__all__ = ["Journal", "JournalRecord", "hashed"]
