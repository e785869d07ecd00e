"""Memory and cores of a machine, within limits of control groups that are files of a test's."""

from pathlib import Path

import pytest

from openenv.train.machine import bfloat16_speed, free_memory, usable_cores

CORES = usable_cores(Path("/no such root"))
"""Cores of this machine without any control group."""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_machine_without_groups_is_what_the_system_says() -> None:
    assert free_memory(Path("/no such root")) > 0
    assert 1 <= usable_cores() <= CORES


def test_numbers_of_16_bits_are_compared_with_those_of_32() -> None:
    speed = bfloat16_speed(on_gpu=False)
    # Processors without instructions for them are up to 20 times slower, those with tiles up to 16 times as fast.
    assert 1e-3 < speed < 1e2


VERSION_2 = {
    "proc/self/cgroup": "0::/pod/own\n",
    "sys/fs/cgroup/pod/own/memory.max": "max\n",
    "sys/fs/cgroup/pod/own/cpu.max": "max 100000\n",
}
VERSION_1 = {"proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/own\n3:cpu,cpuacct:/docker/own\n"}


@pytest.mark.parametrize(
    "files",
    [
        {
            **VERSION_2,
            "sys/fs/cgroup/pod/memory.max": "5000\n",
            "sys/fs/cgroup/pod/memory.current": "3000\n",
            "sys/fs/cgroup/pod/memory.stat": "anon 2500\ninactive_file 500\n",
        },
        {
            **VERSION_1,
            "sys/fs/cgroup/memory/docker/own/memory.limit_in_bytes": "5000\n",
            "sys/fs/cgroup/memory/docker/own/memory.usage_in_bytes": "3000\n",
            "sys/fs/cgroup/memory/docker/own/memory.stat": "inactive_file 7\ntotal_inactive_file 500\n",
        },
        # In a container: the path is one of outside, and the tree is the container's own.
        {
            **VERSION_1,
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "5000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "2500\n",
            "sys/fs/cgroup/memory/memory.stat": "",
        },
    ],
)
def test_a_limit_of_memory_is_that_of_any_group_above(tmp_path: Path, files: dict[str, str]) -> None:
    assert free_memory(write(tmp_path, files)) == 2500


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({**VERSION_2, "sys/fs/cgroup/pod/cpu.max": "150000 100000\n"}, 1),
        ({**VERSION_2, "sys/fs/cgroup/cpu.max": "20000 100000\n"}, 1),
        (
            {
                **VERSION_1,
                "sys/fs/cgroup/cpu,cpuacct/docker/own/cpu.cfs_quota_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/own/cpu.cfs_period_us": "100000\n",
            },
            1,
        ),
        (
            {
                **VERSION_1,
                "sys/fs/cgroup/cpu,cpuacct/docker/own/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/own/cpu.cfs_period_us": "100000\n",
            },
            CORES,
        ),
        (VERSION_2, CORES),
    ],
)
def test_a_limit_of_time_counts_as_cores(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    assert usable_cores(write(tmp_path, files)) == cores


def test_a_group_beyond_its_limit_has_nothing_free(tmp_path: Path) -> None:
    used = {"memory.max": "5000", "memory.current": "6000", "memory.stat": ""}
    files = {f"sys/fs/cgroup/pod/own/{name}": text for name, text in used.items()}
    assert free_memory(write(tmp_path, VERSION_2 | files)) == 0
