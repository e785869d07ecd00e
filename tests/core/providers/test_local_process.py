"""Servers in child processes: real ones, killed and broken in every way."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold, write_files
from tests.support.processes import is_gone, wait_until_gone
from tests.support.servers import eventually

from openenv import GenericEnvClient
from openenv.core.containers.runtime import LocalProcessProvider
from openenv.core.exceptions import (
    ProviderError,
    ServerCapacityError,
    ServerEndedError,
    ServerExecutionError,
    ServerUnauthorizedError,
)

DYING_PARENT = """
import sys
from openenv.core.containers.runtime import LocalProcessProvider

provider = LocalProcessProvider(sys.argv[1])
provider.start()
provider.wait_for_ready(100)
print(provider.pid, flush=True)
sys.stdin.read()
"""

STARTS_A_CHILD = """
import pathlib, subprocess
child = subprocess.Popen(["sleep", "600"])
pathlib.Path(__file__).with_name("pid").write_text(str(child.pid))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An environment that echoes."""
    return scaffold(tmp_path, "local_env")


def broken(folder: Path, code: str) -> Path:
    """Put code before everything else that the server's module does."""
    app = folder / "server" / "app.py"
    app.write_text(f"{code}\n{app.read_text()}")
    return folder


def stopped(provider: LocalProcessProvider) -> str:
    """Return how a provider says that it is running nothing."""
    with pytest.raises(ProviderError) as error:
        provider.wait_for_ready(100)
    return str(error.value)


def test_it_serves_sessions_on_loopback(folder: Path) -> None:
    with LocalProcessProvider(folder) as provider:
        assert provider.base_url.startswith("http://127.0.0.1:")
        assert provider.pid is not None
        assert os.getsid(provider.pid) == provider.pid != os.getsid(0)  # Ctrl-C in the terminal is not for it
        # Not waited for: the connection is taken as soon as the server accepts.
        with GenericEnvClient(base_url=provider.base_url).sync() as client:
            client.reset()
            assert client.step({"message": "hello"}).reward == 0.5


def test_a_client_starts_and_stops_it(folder: Path) -> None:
    provider = LocalProcessProvider(folder)
    client = GenericEnvClient(provider=provider).sync()
    assert "call start() first" in stopped(provider)
    client.reset()
    pid = provider.pid
    assert pid is not None
    assert not is_gone(pid)
    client.close()
    assert "call start() first" in stopped(provider)
    assert is_gone(pid)


def test_max_sessions_reaches_the_server(folder: Path) -> None:
    with LocalProcessProvider(folder, max_sessions=1) as provider, GenericEnvClient(provider.base_url).sync() as first:
        first.reset()
        with pytest.raises(ServerCapacityError, match="1/1"):
            GenericEnvClient(provider.base_url).sync().reset()


def test_environment_variables_reach_the_server_and_start_wins(folder: Path) -> None:
    environment = folder / "server" / "local_env_environment.py"
    environment.write_text(environment.read_text().replace('"Local Env environment ready!"', "os.environ['GREETING']"))
    environment.write_text(f"import os\n{environment.read_text()}")
    provider = LocalProcessProvider(folder, env_vars={"GREETING": "made"})
    for given, expected in ((None, "made"), ({"GREETING": "started"}, "started")):
        url = provider.start(env_vars=given)
        with GenericEnvClient(base_url=url).sync() as client:
            assert client.reset().observation["echoed_message"] == expected
        provider.stop()


def test_it_takes_a_given_port_and_says_if_that_is_taken(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        provider = LocalProcessProvider(folder)
        with pytest.raises(ProviderError, match=f"could not be started.*already in use.*{port}"):
            provider.start(port=port)
        assert provider.pid is None
    try:
        assert provider.start(port=port) == f"http://127.0.0.1:{port}"
        provider.wait_for_ready(100)
    finally:
        provider.stop()


def test_it_runs_one_server_at_a_time(folder: Path) -> None:
    provider = LocalProcessProvider(folder)
    with pytest.raises(ProviderError, match=r"call start\(\) first"):
        provider.base_url  # noqa: B018
    with pytest.raises(ProviderError, match=r"call start\(\) first"):
        provider.wait_for_ready(100)
    first = provider.start()
    with pytest.raises(ProviderError, match=f"running at {first} already"):
        provider.start()
    provider.stop()
    provider.stop()
    assert provider.start() != ""
    provider.stop()


def test_a_token_among_the_variables_is_what_clients_send(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The server on loopback would refuse this one, which is another server's.
    monkeypatch.setenv("OPENENV_TOKEN", "of-another-server")
    provider = LocalProcessProvider(folder, env_vars={"OPENENV_TOKEN": "s3cret"})
    with GenericEnvClient(provider=provider).sync() as client:
        assert provider.token == "s3cret"
        client.reset()
        with pytest.raises(ServerUnauthorizedError):
            GenericEnvClient(provider.base_url).sync().reset()


def test_a_server_that_trusts_nobody_here_gets_a_token(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_AUTH", "always")
    monkeypatch.delenv("OPENENV_TOKEN", raising=False)
    provider = LocalProcessProvider(folder)
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        assert provider.token
        with pytest.raises(ServerUnauthorizedError):
            GenericEnvClient(provider.base_url).sync().reset()


def test_an_application_that_trusts_nobody_here_needs_a_token(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = folder / "server" / "app.py"
    app.write_text(app.read_text().replace("env_name=", 'auth="always", env_name='))
    monkeypatch.delenv("OPENENV_TOKEN", raising=False)
    with pytest.raises(ProviderError, match="Expected a token for the application, which requires one of everybody"):
        LocalProcessProvider(folder).launch()
    monkeypatch.setenv("OPENENV_TOKEN", "sesame")
    with GenericEnvClient(provider=LocalProcessProvider(folder)).sync() as client:
        client.reset()


def test_start_refuses_what_it_does_not_know(folder: Path) -> None:
    with pytest.raises(ProviderError, match="port and env_vars, but got replicas"):
        LocalProcessProvider(folder).start(replicas=2)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise ValueError('no luck')", r"exited with status 1(?s:.*)ValueError: no luck"),
        ("import os\nprint('last words', flush=True)\nos._exit(3)", r"exited with status 3(?s:.*)last words"),
        (
            "import no_such_module",
            r"exited with status 1(?s:.*)'no_such_module', which is not installed(?s:.*)list it in",
        ),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            r"ended by signal 9 \(SIGKILL(?s:.*)\(it printed nothing\)",
        ),
    ],
    ids=["raises", "exits", "lacks a module", "is killed"],
)
def test_a_server_that_dies_before_it_is_ready(folder: Path, code: str, expected: str) -> None:
    with LocalProcessProvider(broken(folder, code)) as provider, pytest.raises(ProviderError, match=expected):
        provider.wait_for_ready(100)


def test_an_unknown_environment_is_named_and_not_waited_for() -> None:
    with (
        LocalProcessProvider("no-such-environment") as provider,
        pytest.raises(ProviderError, match="No environment is called 'no-such-environment'"),
    ):
        provider.wait_for_ready(1e9)


def test_a_log_that_is_read_while_it_is_written_loses_nothing(folder: Path) -> None:
    code = "import time\nfor number in range(20_000):\n    print(number)\nprint('end')\ntime.sleep(600)"
    with LocalProcessProvider(broken(folder, code), grace_s=0.1) as provider:
        while not provider.logs().endswith("end"):
            provider.check_alive()
        assert provider.logs(10**6).split() == [*map(str, range(20_000)), "end"]


def test_a_server_that_never_gets_ready_is_killed_by_force(folder: Path) -> None:
    code = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(600)"
    )
    provider = LocalProcessProvider(broken(folder, code), grace_s=0.1)
    with provider:
        eventually(lambda: "deaf" in provider.logs(), "the server ignores SIGTERM")
        with pytest.raises(TimeoutError, match=r"not ready within 0\.2 s(?s:.*)log:\ndeaf"):
            provider.wait_for_ready(0.2)
        pid = provider.pid
    assert pid is not None
    assert is_gone(pid)


def test_what_the_server_started_ends_with_it(folder: Path) -> None:
    with LocalProcessProvider(broken(folder, STARTS_A_CHILD)) as provider:
        provider.wait_for_ready(100)
        child = int((folder / "server" / "pid").read_text())
        assert not is_gone(child)
    wait_until_gone(child)


@pytest.mark.parametrize("ending", [signal.SIGKILL, None], ids=["kill -9", "a normal end"])
def test_the_server_does_not_outlive_its_parent(folder: Path, ending: signal.Signals | None) -> None:
    command = [sys.executable, "-c", DYING_PARENT, str(broken(folder, STARTS_A_CHILD))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        server = int(parent.stdout.readline())
        child = int((folder / "server" / "pid").read_text())
        assert not is_gone(server)
        assert not is_gone(child)
        if ending is None:
            parent.stdin.close()
        else:
            parent.send_signal(ending)
        parent.wait()
    wait_until_gone(server)
    wait_until_gone(child)


def test_the_log_is_kept_where_asked(folder: Path, tmp_path: Path) -> None:
    log_file = tmp_path / "logs" / "server.log"
    provider = LocalProcessProvider(broken(folder, "print('first line', flush=True)"), log_file=log_file)
    for _ in range(2):
        with provider:
            provider.wait_for_ready(100)
            assert len(provider.logs(10)) <= 10
        assert provider.logs() == ""
    assert log_file.read_text().count("first line") == 2


def test_nothing_is_left_open(folder: Path) -> None:
    provider = LocalProcessProvider(folder)
    before = set(os.listdir("/dev/fd"))  # noqa: PTH208
    for _ in range(2):
        provider.start()
        provider.stop()
    assert set(os.listdir("/dev/fd")) == before  # noqa: PTH208


def test_the_working_directory_shadows_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "elsewhere", {"uvicorn.py": "raise SystemExit('shadowed')"})
    monkeypatch.chdir(tmp_path / "elsewhere")
    with LocalProcessProvider(folder) as provider:
        provider.wait_for_ready(100)


def failing(folder: Path) -> Path:
    """Put an error and a print into an environment's step."""
    file = folder / "server" / "local_env_environment.py"
    step = "self._state.step_count += 1"
    lines = 'print("stepping on", action.message)\n        {}["missing"]'
    file.write_text(file.read_text().replace(step, lines))
    return file


def test_what_the_environment_raises_comes_with_its_place_and_what_it_prints_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = failing(folder)
    with GenericEnvClient(provider=LocalProcessProvider(folder)).sync() as client:
        client.reset()
        with pytest.raises(ServerExecutionError, match=r"KeyError: 'missing' \(.*, in step\)") as raised:
            client.step({"message": "hello"})
    line = file.read_text().splitlines().index('        {}["missing"]') + 1
    assert f"({file}, line {line}, in step)" in str(raised.value)
    assert raised.value.details["traceback"].endswith("KeyError: 'missing'\n")
    shown = capsys.readouterr().err
    assert shown.startswith("stepping on hello\n")
    assert shown.endswith("KeyError: 'missing'\n")


def test_what_goes_into_a_log_file_is_not_shown(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(folder)
    monkeypatch.setenv("OPENENV_DEBUG", "0")
    provider = LocalProcessProvider(folder, log_file=tmp_path / "server.log")
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        with pytest.raises(ServerExecutionError, match="Server error: 'missing'") as raised:
            client.step({"message": "hello"})
    assert not raised.value.details
    assert capsys.readouterr().err == ""
    assert (tmp_path / "server.log").read_text().startswith("stepping on hello\n")


def test_an_environment_that_can_t_be_made_is_said_when_its_server_starts(folder: Path) -> None:
    file = folder / "server" / "local_env_environment.py"
    file.write_text(file.read_text().replace("def step", "def stepp"))
    with pytest.raises(ProviderError, match="Error: LocalEnvironment lacks step, so no instance"):
        GenericEnvClient(provider=LocalProcessProvider(folder)).sync().connect()


def ending(folder: Path, code: str) -> Path:
    """Have an environment's step end its process."""
    file = folder / "server" / "local_env_environment.py"
    file.write_text(file.read_text().replace("self._state.step_count += 1", f"import os, signal; {code}"))
    return folder


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("os._exit(3)", "exited with status 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"was ended by signal 9 \(SIGKILL; it may have run out of memory\)"),
    ],
)
def test_a_step_that_ends_its_process_is_known_at_once(folder: Path, code: str, how: str) -> None:
    sentence = rf"^The server for '.*local_env' {how}, and its sessions with it\. .* OPENENV_ISOLATION=process"
    with GenericEnvClient(provider=LocalProcessProvider(ending(folder, code))).sync() as client:
        client.reset()
        games = client.vector(2)
        games.reset()
        started = time.monotonic()
        for error in games.step([{"message": "a"}, {"message": "b"}]):
            assert isinstance(error, ServerEndedError)
        with pytest.raises(ServerEndedError, match=sentence):
            client.reset()
        with pytest.raises(ServerEndedError, match=sentence):
            client.new_session()
        assert time.monotonic() - started < 20  # and not the 30 s for which a server that lives keeps sessions


def test_a_reset_that_ends_the_process_of_a_client_s_own_loop_is_known_at_once(folder: Path) -> None:
    async def play() -> None:
        async with GenericEnvClient(provider=LocalProcessProvider(ending(folder, "os._exit(3)"))) as client:
            await client.reset()
            await client.step({"message": "a"})

    with pytest.raises(ServerEndedError, match="exited with status 3, and its sessions"):
        asyncio.run(play())
