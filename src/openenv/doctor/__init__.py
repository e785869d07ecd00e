"""Abilities of this machine for environments, and commands that add what is missing: ``openenv doctor``.

A *probe* is a function that tries one thing and returns a ``Finding`` (``finding.py``). They are in ``machine.py``
(memory, disk, ports, files), ``programs.py`` (programs beside Python), ``confinement.py`` (the sandbox and the browser,
which are really started) and ``packages.py`` (packages of pip). ``checkup.py`` runs them all at once. ``needs.py`` has
the probes that an environment depends on.
"""
