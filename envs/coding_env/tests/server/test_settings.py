import pytest

from coding_env.server.settings import Settings
from openenv.core.exceptions import ConfigurationError
from openenv.core.sandbox import SandboxLimits


def test_the_defaults() -> None:
    read = Settings.from_variables({})
    assert read.limits == SandboxLimits()
    assert (read.sandbox, read.packages, read.ready) == ("auto", (), 2)


def test_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "CODING_WALL_S": "1.5",
        "CODING_CPU_S": "3",
        "CODING_MEMORY_MB": "100",
        "CODING_OUTPUT_BYTES": "10",
        "CODING_PROCESSES": "4",
        "CODING_DISK_MB": "2",
        "CODING_PACKAGES": " pydantic, ,pyyaml",
        "CODING_READY": "0",
        "CODING_SANDBOX": "none",
    }.items():
        monkeypatch.setenv(name, value)
    read = Settings.from_variables()
    assert read.limits == SandboxLimits(
        wall_s=1.5, cpu_s=3, memory_bytes=100 * 2**20, output_bytes=10, processes=4, disk_bytes=2 * 2**20
    )
    assert (read.sandbox, read.packages, read.ready) == ("none", ("pydantic", "pyyaml"), 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("CODING_WALL_S", "soon"), ("CODING_MEMORY_MB", "1"), ("CODING_READY", "-1"), ("CODING_SANDBOX", "jail")],
)
def test_a_variable_that_can_not_be(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=value):
        Settings.from_variables().pool()
