"""Traces of episodes: read, filtered, compared, replayed, scored anew, exported and imported.

A server that runs with ``openenv serve --traces FILE`` writes the file; this package reads it, also meanwhile,
and adds to it.
"""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.traces.by_task": ("TaskEpisodes", "preference_pairs", "tasks"),
        "openenv.traces.comparing": ("Difference", "differences"),
        "openenv.traces.episodes": ("Conversation", "Entry", "Episode", "EpisodeRecord", "Filter", "Group", "Score"),
        "openenv.traces.exporting": ("EXPORT_FORMATS", "ExportFormat", "export"),
        "openenv.traces.formats.dataset": ("dataset",),
        "openenv.traces.formats.messages": ("row_of",),
        "openenv.traces.importing": ("import_episodes",),
        "openenv.traces.reading": ("TraceFile", "open"),
        "openenv.traces.replaying": ("replay",),
        "openenv.traces.rescoring": ("rescore", "score"),
    },
)
