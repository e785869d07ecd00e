"""Runs, evaluations and traces in a browser: the routes of the page, and a server of these alone."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.viewer.application": ("comparison_app", "save_page", "source_app", "viewer_app"),
        "openenv.viewer.routes": ("trace_routes",),
        "openenv.viewer.run_routes": ("run_routes",),
        "openenv.viewer.source": ("Source", "find_traces"),
    },
)
