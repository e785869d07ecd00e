"""What a container can't do, tried from inside; and that its limits harm nobody else."""

import os
import socket
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from tests.core.providers.docker.conftest import Start, inside

from openenv.core.containers.runtime import LocalDockerProvider
from openenv.core.providers.resources import Resources

STATUS = "print({line.split(':')[0]: line.split(':')[1].strip() for line in open('/proc/self/status')})"
WRITE = "import sys; open(sys.argv[1] + '/file', 'w').write('x'); print('written')"
REACH = """
import socket, sys
for address in sys.argv[1:]:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=3)
        print("reached", address)
    except OSError as error:
        print(address, error)
try:
    print("resolved", socket.getaddrinfo("pypi.org", 443))
except OSError as error:
    print(error)
"""
HOG = "import time; held = [bytes(range(256)) * 4096 for _ in range(4096)]"
FORK_BOMB = """
import os, time
children = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
except BlockingIOError:
    print(children, flush=True)
    os.killpg(0, 9)
"""
BURN = """
import multiprocessing, os, time
def burn(end):
    while time.monotonic() < end: pass
end = time.monotonic() + 1.5
children = [multiprocessing.Process(target=burn, args=(end,)) for _ in range(2)]
begun = time.monotonic()
for child in children: child.start()
for child in children: child.join()
used = os.times()
print((used.children_user + used.children_system) / (time.monotonic() - begun))
"""
SANDBOX = """
import subprocess
command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "echo", "in a sandbox"]
print(subprocess.run(command, capture_output=True, text=True))
"""
TRACE = "import ctypes; print(ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0), ctypes.get_errno())"


@pytest.fixture(scope="module")
def plain(small_image: str) -> Iterator[LocalDockerProvider]:
    """A container as it is where nobody asks for anything."""
    yield from running(small_image)


@pytest.fixture(scope="module")
def confined(labelled_image: str) -> Iterator[LocalDockerProvider]:
    """A container whose image asks for all of the confinement."""
    yield from running(labelled_image)


def running(image: str) -> Iterator[LocalDockerProvider]:
    provider = LocalDockerProvider(image, grace_s=0)
    provider.launch()
    yield provider
    provider.shut_down()


def address_of_this_machine() -> str:
    """An address at which containers could reach this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # a datagram socket sends nothing by this
        return str(probe.getsockname()[0])


def is_well(provider_url: str) -> bool:
    return bool(urlopen(f"{provider_url}/health").status == 200)


@pytest.mark.parametrize(("capabilities", "effective"), [([], "0"), (["CHOWN"], "1")])
def test_it_has_the_privileges_that_it_is_given_and_gets_no_others(
    start: Start, capabilities: list[str], effective: str
) -> None:
    status = inside(start(capabilities=capabilities), STATUS).stdout
    assert f"'CapEff': '000000000000000{effective}'" in status
    assert "'NoNewPrivs': '1'" in status
    assert "'Seccomp': '2'" in status


def test_its_files_are_read_only_where_the_image_says_so(
    plain: LocalDockerProvider, confined: LocalDockerProvider, start: Start
) -> None:
    assert "Read-only file system" in inside(confined, WRITE, "/opt").stderr
    assert inside(confined, WRITE, "/tmp").stdout == "written\n"
    assert inside(plain, WRITE, "/opt").stdout == "written\n"
    asked = start(read_only=True)
    assert "Read-only file system" in inside(asked, WRITE, "/opt").stderr
    assert inside(asked, WRITE, "/tmp").stdout == "written\n"


def test_without_a_network_nothing_is_reached(plain: LocalDockerProvider, confined: LocalDockerProvider) -> None:
    with socket.create_server(("0.0.0.0", 0)) as here:
        addresses = [f"{address_of_this_machine()}:{here.getsockname()[1]}", "1.1.1.1:53", "172.17.0.1:80"]
        said = inside(confined, REACH, *addresses).stdout
        assert said.count("unreachable") == 3
        assert "resolved" not in said
        assert is_well(confined.base_url)
        # The same program finds this machine where there is a network: it can tell.
        assert f"reached {addresses[0]}" in inside(plain, REACH, addresses[0]).stdout


def test_a_memory_hog_dies_alone(start: Start, plain: LocalDockerProvider) -> None:
    hog = start(resources=Resources(memory="64m"))
    assert inside(hog, HOG).returncode == 137
    assert is_well(plain.base_url)
    plain.check_alive()
    hog.check_alive()  # its server used little, so it is the hog that was ended
    assert is_well(hog.base_url)


@pytest.mark.parametrize(("resources", "most"), [(Resources(pids=40), 40), (Resources(), 1024)])
def test_a_fork_bomb_is_bounded(start: Start, plain: LocalDockerProvider, resources: Resources, most: int) -> None:
    bombed = start(resources=resources)
    finished = inside(bombed, FORK_BOMB)
    assert 0 < int(finished.stdout) < most
    assert is_well(plain.base_url)
    assert is_well(bombed.base_url)


def test_cpus_are_shared_out(start: Start) -> None:
    assert float(inside(start(resources=Resources(cpus=0.25)), BURN).stdout) < 0.4


def test_only_an_image_that_says_so_may_make_sandboxes(
    plain: LocalDockerProvider, confined: LocalDockerProvider
) -> None:
    allowed = inside(confined, SANDBOX).stdout
    assert "stdout='in a sandbox" in allowed
    refused = inside(plain, SANDBOX).stdout
    assert "returncode=1" in refused
    assert "ermi" in refused  # Operation not permitted, No permissions


def test_even_then_the_dangerous_calls_are_refused(confined: LocalDockerProvider) -> None:
    assert inside(confined, TRACE).stdout == "-1 1\n"
    assert os.strerror(1) == "Operation not permitted"
