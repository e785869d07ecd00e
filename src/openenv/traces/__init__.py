"""Traces of episodes: read, filtered, compared and replayed.

A server that runs with ``openenv serve --traces FILE`` writes the file; this package reads it, also meanwhile,
and adds to it.
"""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.traces.comparing": ("Difference", "differences"),
        "openenv.traces.episodes": ("Conversation", "Entry", "Episode", "Filter", "Group", "Score"),
        "openenv.traces.reading": ("TraceFile", "open"),
        "openenv.traces.replaying": ("replay",),
    },
)
