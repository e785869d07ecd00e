"""Traces in a browser: what the page at ``/web/traces`` reads of a file of traces, and a server of that alone."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.viewer.application": ("find_traces", "viewer_app"),
        "openenv.viewer.routes": ("trace_routes",),
    },
)
