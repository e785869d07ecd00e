"""Agents that speak the Model Context Protocol: over HTTP at ``/mcp``, and over standard input and output.

Only ``handlers.py``, ``native.py`` and ``stdio.py`` import the protocol's SDK, which takes as long to import as the
rest of the server; a server imports them when the first agent connects.
"""
