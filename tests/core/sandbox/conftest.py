"""Sandboxes with small limits, for code that tries to get out of them."""

from collections.abc import Callable, Iterator

import psutil
import pytest

from openenv.core.sandbox import Sandbox, SandboxLimits

LIMITS = SandboxLimits(
    wall_s=3.0,
    cpu_s=3.0,
    memory_bytes=160 * 2**20,
    output_bytes=10_000,
    processes=16,
    disk_bytes=8 * 2**20,
    disk_files=500,
    open_files=64,
)


Started = Callable[[], list[psutil.Process]]


@pytest.fixture(autouse=True)
def started() -> Started:
    """What the test has started itself: pools of other tests may live on in this process."""
    earlier = set(psutil.Process().children())
    return lambda: [child for child in psutil.Process().children() if child not in earlier]


@pytest.fixture
def limits() -> SandboxLimits:
    return LIMITS


@pytest.fixture
def sandbox(limits: SandboxLimits) -> Iterator[Sandbox]:
    """A sandbox that must be of use after whatever the test has done in it."""
    with Sandbox(limits) as sandbox:
        yield sandbox
        after = sandbox.python("print('the next step')")
        assert (after.stdout, after.stderr, after.exit_code) == ("the next step\n", "", 0)
        assert sandbox.shell("echo works too").stdout == "works too\n"
