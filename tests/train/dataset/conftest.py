"""Databases of traces."""

from tests.support.trace_locations import postgres

__all__ = ["postgres"]
