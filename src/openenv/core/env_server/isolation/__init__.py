"""Environments in separate processes: ``isolation="process"``.

Three kinds of process take part. The *server* has a ``ProcessRunner`` for each session (``runner``) and decides which
process runs a session's environment (``pool``). The *fork server* (``forkserver_main``; ``forkserver`` is the server's
end of it) has imported the environment's module once and forks a process from itself for each request of the server,
which takes milliseconds where a fresh interpreter takes hundreds. Each *environment's process* (``process_main``) runs
the environments of its sessions just as the server would run them without isolation, and answers over a socket
(``link``).
"""
