import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.core.sandbox import SandboxLimits


def test_limits_can_not_be_changed() -> None:
    limits = SandboxLimits()
    with pytest.raises(AttributeError):
        limits.wall_s = 5  # type: ignore[misc]
    assert SandboxLimits() == limits
    assert hash(SandboxLimits()) == hash(limits)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wall_s", 0.0),
        ("wall_s", -1.0),
        ("wall_s", float("inf")),
        ("wall_s", float("nan")),
        ("cpu_s", 0.0),
        ("memory_bytes", 1000),
        ("output_bytes", 0),
        ("processes", 0),
        ("disk_bytes", -1),
        ("disk_files", 0),
        ("open_files", 3),
    ],
)
def test_a_limit_that_can_not_be(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=name):
        SandboxLimits(**{name: value})  # type: ignore[arg-type]
