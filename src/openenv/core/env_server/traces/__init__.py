"""Recording of episodes: every reset and step of a server's sessions, whatever their transport.

``recording.py`` is called by the sessions and collects; each quarter of a second it hands the collected entries to the
thread of ``writer.py``, which encodes them (``encoding.py``) without the secrets that the process knows, and writes
them (``store.py``) to a file (``sqlite.py``) or a database (``postgres.py``). ``openenv.traces`` reads them.
"""

from openenv.core.env_server.traces.recording import SessionTrace, TraceRecorder

__all__ = ["SessionTrace", "TraceRecorder"]
