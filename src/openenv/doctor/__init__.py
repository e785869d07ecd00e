"""Abilities of this machine for environments, and commands that add what is missing: ``openenv doctor``.

A *probe* is a function that tries one thing and returns a ``Finding`` (``finding.py``). They are in ``machine.py``
(room, ports, files), ``programs.py`` (what has to be installed beside Python), ``confinement.py`` (the sandbox and the
browser, which are really started) and ``packages.py`` (what has to be installed with pip). ``checkup.py`` runs them all
at once. ``needs.py`` tells which of them an environment depends on.
"""
