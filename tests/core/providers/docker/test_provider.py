"""Servers in real containers: reached, broken, killed and left behind."""

import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from tests.core.providers.docker.conftest import Start, inside, runs
from tests.support.processes import wait_until_gone
from tests.support.servers import eventually
from tests.support.services import docker_engine

from openenv import GenericEnvClient
from openenv.core.containers.runtime import LocalDockerProvider
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerNotReadyError, ServerUnauthorizedError
from openenv.core.providers.docker import reaper as reaper_program
from openenv.core.providers.docker.labels import OWNER
from openenv.core.providers.resources import Resources

DYING_CLIENT = """
import os, sys
from openenv.core.containers.runtime import LocalDockerProvider

providers = [LocalDockerProvider(sys.argv[1], grace_s=0) for _ in range(2)]
for provider in providers:
    provider.start_container()
if "fork" in sys.argv and os.fork() == 0:
    sys.stdin.read()  # a child, which holds open whatever its parent does
    os._exit(0)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


MUCH = 16 * 2**20
WRITES_FIRST = f"""
import socket
listener = socket.create_server(("0.0.0.0", 8000))
while True:
    client = listener.accept()[0]
    left = {MUCH} - len(client.recv(1))
    client.sendall(bytes({MUCH}))
    while left:
        left -= len(client.recv(65536))
    client.sendall(b"!")
    client.close()
"""


@pytest.fixture
def dying_client(small_image: str) -> Iterator[subprocess.Popen[str]]:
    """A program with two containers, which ends when it is told to."""
    with client_program(small_image) as process:
        yield process


def client_program(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", DYING_CLIENT, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == str(process.pid)
    return process


def left_by(pid: int) -> list[str]:
    """The containers of a process."""
    named = json.loads(f"[{','.join(_inspected('{{json .Config.Labels}}'))}]")
    return [labels[OWNER] for labels in named if OWNER in labels and labels[OWNER].split("/")[3] == str(pid)]


def _inspected(form: str) -> list[str]:
    found = docker_engine.containers("--filter", f"label={OWNER}")
    # One that is removed meanwhile makes the command fail, but says nothing of the others.
    shown = subprocess.run(["docker", "inspect", "--format", form, *found], capture_output=True, text=True)
    return shown.stdout.splitlines() if found else []


def reaper_of(pid: int) -> int:
    (found,) = (child.pid for child in psutil.Process(pid).children() if reaper_program.__name__ in child.cmdline())
    return found


def details(provider: LocalDockerProvider) -> str:
    assert provider.container_name is not None
    return subprocess.run(["docker", "inspect", provider.container_name], capture_output=True, text=True).stdout


def test_a_client_plays_in_a_container_of_its_own(echo_image: str) -> None:
    provider = LocalDockerProvider(echo_image, resources=Resources(memory="512m"))
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        assert client.step({"message": "hello"}).reward == 0.5
        name = provider.container_name
        url = provider.base_url
        assert name is not None
        assert docker_engine.containers("--filter", f"name={name}") != []
        with pytest.raises(ServerUnauthorizedError), GenericEnvClient(base_url=url).sync() as stranger:
            stranger.reset()
    assert docker_engine.containers("--filter", f"name={name}") == []
    assert provider.logs() == ""


def test_without_a_network_the_server_is_reached_and_reaches_nothing(echo_image: str) -> None:
    provider = LocalDockerProvider(echo_image, network="none")
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        assert client.step({"message": "x" * 300_000}).reward == 30_000
        seen = inside(provider, "import os; print(*os.listdir('/sys/class/net'))")
        assert seen.stdout.split() == ["lo"]


def test_connections_through_the_relay_leave_no_process_behind(start: Start) -> None:
    provider = start(network="none")
    count = "import os; print(sum(name.isdecimal() for name in os.listdir('/proc')))"
    before = int(inside(provider, count).stdout)
    with ThreadPoolExecutor(4) as threads:
        urls = [f"{provider.base_url}/health"] * 8
        assert all(threads.map(lambda url: urlopen(url).status == 200, urls))
    eventually(lambda: int(inside(provider, count).stdout) <= before, "the relay's processes have ended")


def test_a_relay_carries_both_directions_at_once() -> None:
    image = docker_engine.variant_of(docker_engine.python_image(), "writes-first", runs(WRITES_FIRST))
    provider = LocalDockerProvider(image, network="none", grace_s=0)
    port = int(provider.start_container().rpartition(":")[2])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client, ThreadPoolExecutor(1) as thread:
            sending = thread.submit(client.sendall, bytes(MUCH))
            answer = b"".join(iter(lambda: client.recv(65536), b""))
            sending.result()
    finally:
        provider.shut_down()
    assert (len(answer), answer[-1:]) == (MUCH + 1, b"!")


def test_it_is_published_on_loopback_only(start: Start) -> None:
    provider = start()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", provider.base_url)
    (published,) = json.loads(details(provider))[0]["NetworkSettings"]["Ports"]["8000/tcp"]
    assert published["HostIp"] == "127.0.0.1"


def test_the_server_listens_where_port_says(start: Start) -> None:
    provider = start(env_vars={"PORT": "9123"})
    assert list(json.loads(details(provider))[0]["NetworkSettings"]["Ports"]) == ["9123/tcp"]
    with pytest.raises(ConfigurationError, match="PORT must be a port of 1 to 65535, but got 'web'"):
        start(env_vars={"PORT": "web"})


def test_a_port_may_be_chosen_and_may_be_taken(small_image: str, start: Start) -> None:
    first = start()
    port = int(first.base_url.rpartition(":")[2])
    for network in ("bridge", "none"):
        second = LocalDockerProvider(small_image, network=network, grace_s=0)
        with pytest.raises(ProviderError, match=rf"{port}.*(allocated|in use)"):
            second.start_container(port=port)
        assert second.container_name is None
    first.stop_container()
    assert first.start_container(port=port) == f"http://127.0.0.1:{port}"


def test_sixteen_at_once(small_image: str) -> None:
    providers = [LocalDockerProvider(small_image, grace_s=0) for _ in range(16)]
    with ThreadPoolExecutor(16) as threads:
        urls = set(threads.map(lambda provider: provider.launch(), providers))
        assert len(urls) == 16
        assert all(urlopen(f"{url}/health").status == 200 for url in urls)
        list(threads.map(lambda provider: provider.shut_down(), providers))
    assert left_by(os.getpid()) == []


def test_an_image_whose_server_ends_shows_its_log(start: Start) -> None:
    program = "import sys; print('looking for the model'); print('no such model: tiny'); sys.exit(3)"
    image = docker_engine.variant_of(docker_engine.python_image(), "ends", runs(program))
    with pytest.raises(ProviderError, match=r"(?s)ended: exit status 3.*looking for the model.*no such model: tiny"):
        start(image)
    assert left_by(os.getpid()) == []


def test_an_image_whose_server_never_answers_shows_its_log() -> None:
    image = docker_engine.variant_of(
        docker_engine.python_image(), "silent", runs("import time; print('loading 1 of 9'); time.sleep(600)")
    )
    provider = LocalDockerProvider(image, grace_s=0)
    url = provider.start_container()
    eventually(lambda: provider.logs() == "loading 1 of 9", "it prints")
    with pytest.raises(ServerNotReadyError, match=r"(?s)not ready within 0\.1 s.*loading 1 of 9"):
        provider.wait_for_ready(url, timeout_s=0.1)
    provider.shut_down()


def test_an_image_whose_command_is_not_there_says_so(start: Start) -> None:
    image = docker_engine.variant_of(docker_engine.python_image(), "nothing", 'CMD ["no-such-server"]\n')
    with pytest.raises(ProviderError, match=r"did not start: .*no-such-server"):
        start(image)


def test_an_image_that_is_nowhere_says_how_to_build_it(start: Start) -> None:
    with pytest.raises(
        ProviderError, match=r"no image openenv-tests/never:1 here, .*openenv build -t openenv-tests/never:1"
    ):
        start("openenv-tests/never:1")


def test_a_server_that_used_too_much_memory_says_so() -> None:
    hog = "import time; time.sleep(0.2); held = [bytes(range(256)) * 4096 for _ in range(4096)]"
    image = docker_engine.variant_of(docker_engine.python_image(), "hog", runs(hog))
    provider = LocalDockerProvider(image, resources=Resources(memory="32m"))
    with pytest.raises(ProviderError, match="ended: it used more memory than it may"):
        provider.launch()


def test_a_container_that_somebody_else_removed_is_told(start: Start) -> None:
    provider = start()
    provider.check_alive()
    subprocess.run(["docker", "rm", "--force", str(provider.container_name)], check=True, capture_output=True)
    with pytest.raises(ProviderError, match="removed by another process"):
        provider.check_alive()
    provider.stop_container()


def test_an_image_is_pinned_by_its_digest(small_image: str, start: Start) -> None:
    digest = json.loads(details(start()))[0]["Image"]
    start(f"{small_image}@{digest}")
    start(digest=digest)
    other = f"sha256:{'0' * 64}"
    with pytest.raises(ProviderError, match=rf"expected {other}, but it is {digest}"):
        start(digest=other)
    with pytest.raises(ConfigurationError, match="pinned already"):
        start(f"{small_image}@{digest}", digest=other)
    with pytest.raises(ConfigurationError, match="64 hexadecimal digits, but got 'sha256:12'"):
        start(digest="sha256:12")


def test_secrets_are_variables_that_docker_does_not_show(start: Start) -> None:
    secret = 'it\'s "quoted"\nand $HOME has 2 lines'
    provider = start(secrets={"MODEL_KEY": secret}, env_vars={"MODEL": "tiny"})
    shown = details(provider)
    assert "MODEL=tiny" in shown
    assert "quoted" not in shown
    assert provider.token is not None
    assert provider.token not in shown
    read = "print(open('/proc/1/environ').read(), end='')"
    seen = inside(provider, read).stdout.split("\0")
    assert f"MODEL_KEY={secret}" in seen
    assert f"OPENENV_TOKEN={provider.token}" in seen
    (mounted,) = json.loads(shown)[0]["HostConfig"]["Binds"]
    assert not Path(mounted.partition(":")[0]).exists()
    assert start(secrets={"OPENENV_TOKEN": "chosen"}).token == "chosen"
    with pytest.raises(ConfigurationError, match="such as API_KEY, but got 'a b'"):
        start(secrets={"a b": "c"})


def test_an_image_without_python_is_not_reached_without_a_network(start: Start) -> None:
    remove = "RUN rm -f /opt/python/bin/python* /usr/bin/python3*\nCMD sleep 600\n"
    image = docker_engine.variant_of(docker_engine.python_image(), "no-python", remove)
    with pytest.raises(ProviderError, match="can't be reached: the image has no python3"):
        start(image, network="none")


def test_a_network_that_publishes_nothing_is_refused(start: Start) -> None:
    name = f"openenv-tests-{os.getpid()}"
    subprocess.run(["docker", "network", "create", "--internal", name], check=True, capture_output=True)
    try:
        with pytest.raises(ProviderError, match=f"{name} publishes no ports.*none"):
            start(network=name)
    finally:
        subprocess.run(["docker", "network", "rm", name], check=True, capture_output=True)


def test_what_it_does_not_know_is_refused(small_image: str) -> None:
    provider = LocalDockerProvider(grace_s=0)
    with pytest.raises(ConfigurationError, match="No image was named"):
        provider.start_container()
    with pytest.raises(ConfigurationError, match=r"does not know memroy; .* takes resources, network"):
        provider.start_container(small_image, memroy="1g")
    provider.start_container(small_image, workers=2)
    with pytest.raises(ProviderError, match="is running already; stop_container"):
        provider.start_container(small_image)
    provider.shut_down()
    provider.shut_down()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_killed_client(dying_client: subprocess.Popen[str], number: int) -> None:
    assert len(left_by(dying_client.pid)) == 2
    reaper = reaper_of(dying_client.pid)
    dying_client.send_signal(number)
    wait_until_gone(dying_client.pid)
    eventually(lambda: left_by(dying_client.pid) == [], "its containers are removed")
    wait_until_gone(reaper)


def test_nothing_is_left_of_a_killed_client_that_a_child_outlives(small_image: str) -> None:
    with client_program(small_image, "fork") as client:
        client.kill()
        client.wait()
        eventually(lambda: left_by(client.pid) == [], "its containers are removed")


def test_nothing_is_left_of_a_client_that_ends_without_stopping(dying_client: subprocess.Popen[str]) -> None:
    assert len(left_by(dying_client.pid)) == 2
    assert dying_client.stdin is not None
    dying_client.stdin.close()
    dying_client.wait()
    assert left_by(dying_client.pid) == []


def test_what_a_killed_reaper_left_is_removed_by_the_next_start(
    dying_client: subprocess.Popen[str], start: Start
) -> None:
    start()
    assert len(left_by(dying_client.pid)) == 2  # whose owner is there
    os.kill(reaper_of(dying_client.pid), signal.SIGKILL)
    dying_client.kill()
    dying_client.wait()
    assert len(left_by(dying_client.pid)) == 2
    start()
    assert left_by(dying_client.pid) == []


def test_a_reaper_that_was_killed_is_replaced(start: Start) -> None:
    start()
    reaper = reaper_of(os.getpid())
    os.kill(reaper, signal.SIGKILL)
    wait_until_gone(reaper)
    start()
    assert reaper_of(os.getpid()) != reaper


# The SDK drops the socket of a connection that could not be made without closing it.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_engine_that_is_not_there_is_told_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    docker_engine.require_engine()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(
        RuntimeError, match=r"(?s)`docker version` says: .*docker\.sock.*Start it: sudo systemctl start"
    ):
        LocalDockerProvider()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProviderError, match=r"there is no `docker` command.*apt-get install docker\.io"):
        LocalDockerProvider()
    gc.collect()
