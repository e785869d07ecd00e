"""Files and databases of traces."""

from tests.support.trace_locations import location, postgres

__all__ = ["location", "postgres"]
