"""Worker processes that serve one port: ``openenv serve --workers N``.

The *supervisor* (``supervisor``) accepts every client and sends its socket to the worker with the fewest clients; it
starts the workers, replaces those that die, and ends them. Each *worker* (``worker``) is a fresh interpreter that
imports the application's factory (``openenv.core.env_server.execution.import_spec``) and serves the sockets that it
receives. Supervisor and worker talk over a ``channel``. A request for a session of another worker is forwarded
(``forwarding``); the slots for sessions are counted over all workers (``openenv.core.env_server.capacity.slots``).
"""
