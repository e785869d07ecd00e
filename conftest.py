"""For the tests of the house and of its environments: what they need, and how many examples property tests try."""

from hypothesis import settings

pytest_plugins = ["tests.needs"]

# A first example may load what is large, and the machine may be busy.
settings.register_profile("openenv", max_examples=60, deadline=None)
# The same examples in each run: what a change is let in by must not depend on luck. Runs by hand look for new ones.
settings.register_profile("repeatable", settings.get_profile("openenv"), derandomize=True, database=None)
settings.load_profile("openenv")
