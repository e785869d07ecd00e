"""The Hub that these tests ask."""

from tests.support.services.hub_fixtures import hub, impatient

__all__ = ["hub", "impatient"]
