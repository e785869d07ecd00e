"""The Hub that these tests ask, and a dataset's repository."""

from tests.support.services.hub_fixtures import hub, impatient

__all__ = ["hub", "impatient"]
