"""Environments in processes of their own: ``isolation="process"``.

Three kinds of process take part. The *server* has a ``ProcessRunner`` for each session (``runner``) and decides which
process a session lives in (``processes``). The *template* (``template``, started by ``launcher`` with a ``plan``) has
imported the environment's module once and forks a process from itself whenever the server asks, which takes
milliseconds where a fresh interpreter takes hundreds. Each *environment's process* (``worker``) runs the environments
of its sessions just as the server would run them without isolation, and answers over a socket (``link``).
"""
