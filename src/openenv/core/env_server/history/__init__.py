"""History of every session of v1, from which a session is rebuilt after the server's process has ended.

``journal.py`` collects the requests and answers of sessions and commits them in batches (``batch.py``); ``record.py``
is one session's part, also where there is no journal. A *store* (``store.py``) keeps the batches: a file or a database
that servers share (``stores/``). ``reader.py`` reads a session's history (``entries.py``), after ``rows.py`` has made
sure that no other server owns the session. ``retention.py`` deletes old batches, and those beyond the size limit.
"""

from openenv.core.env_server.history.journal import Journal
from openenv.core.env_server.history.record import JournalRecord, hashed

__all__ = ["Journal", "JournalRecord", "hashed"]
