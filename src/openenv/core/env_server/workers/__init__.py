"""Several processes that serve one port: ``openenv serve --workers N``.

The *supervisor* (``supervisor``) accepts every client and hands its socket to the worker with the fewest; it starts the
workers, replaces those that die, and ends them. Each *worker* (``worker``) is a fresh interpreter that imports what
makes the application (``openenv.core.env_server.importable``) and serves the sockets that it is given. The two talk
over a ``channel``. A request that names a session of another worker is handed on to that one (``relay``); the places
for sessions are counted over all workers (``openenv.core.env_server.places``).
"""
