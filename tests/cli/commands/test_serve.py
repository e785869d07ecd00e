"""``openenv serve``: real servers, in every way they are started and ended."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.support.environment_folders import public_environment, scaffold
from tests.support.forked import ForkedProgram
from tests.support.processes import children_of, wait_until_gone
from tests.support.servers import PROGRAMS, eventually
from tests.support.wheels import make_wheel

from openenv import GenericEnvClient
from openenv.core import MCPToolClient
from openenv.core.env_server.history.stores.sqlite import open_journal, prepare_journal
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.exceptions import ServerCapacityError, ServerExecutionError


class Serving:
    """A running ``openenv serve``."""

    def __init__(self, process: subprocess.Popen[str] | ForkedProgram, url: str) -> None:
        self.process = process
        self.url = url

    def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def serving(*arguments: object, cwd: Path, **settings: Any) -> Iterator[Serving]:
    """Run ``openenv serve`` on a free port until the block ends."""
    words = ["-m", "openenv.cli", "serve", *map(str, arguments)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **settings.pop("variables", {})}
    if "pass_fds" in settings:  # inherited from this process, so that this one starts it
        settings |= {"args": [sys.executable, *words], "text": True}
        process: Any = subprocess.Popen(cwd=cwd, stdout=subprocess.PIPE, env=environment, **settings)
    else:
        process = ForkedProgram(words, cwd=cwd, stdout=subprocess.PIPE, env=environment, **settings)
    with process:
        try:
            assert process.stdout is not None
            found = re.fullmatch(r"Serving (\S+) at (https?://\S+)\n", process.stdout.readline())
            assert found is not None
            yield Serving(process, found[2])
        finally:
            process.kill()


def health(url: str) -> dict[str, str]:
    with urllib.request.urlopen(f"{url}/health", timeout=60) as response:
        answer: dict[str, str] = json.load(response)
        return answer


def test_it_serves_a_folder_until_ctrl_c(tmp_path: Path) -> None:
    with serving(scaffold(tmp_path, "my_env"), "-p", 0, cwd=tmp_path) as server:
        assert server.url.startswith("http://127.0.0.1:")
        with GenericEnvClient(base_url=server.url).sync() as client:
            client.reset()
            assert client.step({"message": "hello"}).reward == 0.5
        assert server.end(signal.SIGINT) == 130


def test_it_says_how_to_play_and_stop(tmp_path: Path) -> None:
    scaffold(tmp_path, "my_env")
    with serving("-p", 0, cwd=tmp_path / "my_env") as server:
        assert health(server.url) == {"status": "healthy"}
        server.process.terminate()
        assert server.process.stdout is not None
        text = server.process.stdout.read()
    assert f"openenv play {server.url}" in text
    assert f"{server.url}/docs" in text
    assert "Ctrl-C" in text
    assert "token" not in text, "that is for other machines, which can't come here"
    assert "machines" not in text


@pytest.mark.parametrize(
    ("options", "number", "status"),
    [
        (["--drain-s", 0], signal.SIGTERM, -signal.SIGTERM),
        (["--drain-s", 600], signal.SIGINT, 130),
        (["--drain-s", 600, "--workers", 2], signal.SIGINT, 130),
    ],
)
def test_an_episode_under_way_does_not_hold_up_the_end(
    tmp_path: Path, options: list[object], number: signal.Signals, status: int
) -> None:
    with serving(scaffold(tmp_path, "my_env"), "-p", 0, *options, cwd=tmp_path) as server:
        client = GenericEnvClient(base_url=server.url).sync()
        client.reset()
        assert server.end(number) == status
        client.close()


def test_sigterm_lets_an_episode_end(tmp_path: Path) -> None:
    with (
        serving("echo", "-p", 0, "--drain-s", 1.5, cwd=tmp_path, stderr=subprocess.PIPE) as server,
        GenericEnvClient(base_url=server.url).sync() as client,
    ):
        client.reset()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.stderr is not None
        assert "draining: 1 episode under way, at most 1.5 s" in server.process.stderr.readline()
        assert client.step({"message": "hello"}).reward == 0.5
        assert server.process.wait(60) == -signal.SIGTERM


@pytest.mark.parametrize("bound", [("--journal-max-age-s", 50), ("--journal-max-size-mb", 1)])
def test_the_journal_s_bounds_have_options(tmp_path: Path, bound: tuple[str, int]) -> None:
    path = tmp_path / "journal"
    prepare_journal(path)
    with closing(open_journal(path)) as journal:
        old = [(time.time() - 100, "[]", "x" * 500_000)] * 10
        journal.executemany("INSERT INTO batch (run, at, notes, answers) VALUES (1, ?, ?, ?)", old)
        with (
            serving("echo", "-p", 0, "--journal", path, *bound, cwd=tmp_path) as server,
            GenericEnvClient(base_url=server.url).sync() as client,
        ):
            client.reset()
            eventually(lambda: journal.execute("SELECT count(*) FROM batch").fetchone()[0] < 8, "pruning")


def test_a_journal_may_be_the_address_of_a_database(openenv: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ended = openenv("serve", "echo", "-p", 0, "--journal", f"postgresql://me:hidden-pass@127.0.0.1:{port}/episodes")
    assert ended.returncode == 1
    assert f"The journal postgresql://me@127.0.0.1:{port}/episodes can't be used" in ended.stderr
    assert "hidden-pass" not in ended.stdout + ended.stderr


def test_limits_have_options(tmp_path: Path) -> None:
    options = ["--max-sessions-per-client", 1, "--step-timeout-s", 30, "--reset-timeout-s", 30, "--resume-window-s", 1]
    options += ["--max-wait-s", 0, "--max-messages-per-s", 1000]
    with (
        serving("echo", "-p", 0, "--max-sessions", 4, *options, cwd=tmp_path) as server,
        GenericEnvClient(base_url=server.url).sync() as first,
    ):
        first.reset()
        with pytest.raises(ServerCapacityError, match="You have 1 of the 1") as refused:
            GenericEnvClient(base_url=server.url).sync().reset()
        assert refused.value.of_client


def test_names_and_public_folders_are_served(tmp_path: Path) -> None:
    public_environment(tmp_path, "tally_env")
    for target, action in (("echo", {"message": "x"}), ("tally_env", {"amount": 3})):
        with (
            serving(target, "-p", 0, cwd=tmp_path) as server,
            GenericEnvClient(base_url=server.url).sync() as client,
        ):
            client.reset()
            assert client.step(action).reward is not None


def test_an_application_may_be_named(tmp_path: Path) -> None:
    folder = public_environment(tmp_path)
    (folder / "openenv.yaml").unlink()
    with (
        serving(folder, "-p", 0, "--app", "server.app:app", cwd=tmp_path) as server,
        GenericEnvClient(base_url=server.url).sync() as client,
    ):
        client.reset()
        assert client.step({"amount": 2}).observation["total"] == 2


def test_a_folder_is_served_in_an_environment_of_its_own(tmp_path: Path, offline: Path) -> None:
    make_wheel(offline, "dice-lore", "6.0")
    folder = scaffold(tmp_path, "my_env")
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace("dependencies = [", "dependencies = ['dice-lore', ", 1))
    app = folder / "server" / "app.py"
    app.write_text(f"import dice_lore\n{app.read_text()}")

    with serving("--venv", "-p", 0, cwd=folder) as server:
        with GenericEnvClient(base_url=server.url).sync() as client:
            client.reset()
            assert client.step({"message": "hello"}).reward == 0.5
        assert server.end(signal.SIGINT) == 130


def test_the_port_may_come_from_the_environment(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with serving("echo", cwd=tmp_path, variables={"PORT": str(port)}) as server:
        assert server.url == f"http://127.0.0.1:{port}"


def test_isolation_runs_environments_in_other_processes(tmp_path: Path) -> None:
    options = ("--isolation", "process", "--sessions-per-process", 2)
    with (
        serving("echo", "-p", 0, *options, cwd=tmp_path) as server,
        GenericEnvClient(base_url=server.url).sync() as client,
    ):
        client.reset()
        assert client.step({"message": "hello"}).reward == 0.5
        (template,) = children_of(server.process.pid)
        (process,) = children_of(template)
        assert server.end(signal.SIGTERM) == -signal.SIGTERM
        wait_until_gone(template, process)


def test_a_taken_port_is_told_before_anything_is_announced(openenv: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = openenv("serve", "echo", "-p", port)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"Error: Can't listen on 127.0.0.1:{port}: Address already in use. "
        "Choose another --port (0 chooses a free one) or --host.\n"
    )


def test_a_host_that_is_not_ours_is_told(openenv: Any) -> None:
    ended = openenv("serve", "echo", "-p", 0, "--host", "192.0.2.1")
    assert ended.returncode == 1
    assert "Can't listen on 192.0.2.1:0" in ended.stderr


class TestOffLoopback:
    """What a person is told; tests/core/env_server/access/test_policy_network.py has other machines come."""

    def printed(self, tmp_path: Path, *options: object, environment: object = "echo", **variables: str) -> str:
        variables = {"OPENENV_TOKEN": "", **variables}
        options = ("--host", "0.0.0.0", *options)
        with serving(environment, "-p", 0, *options, cwd=tmp_path, variables=variables) as server:
            assert server.url.startswith("http://127.0.0.1:")
            assert health(server.url) == {"status": "healthy"}
            server.process.terminate()
            assert server.process.stdout is not None
            return server.process.stdout.read()

    def test_a_token_is_made_and_told_once_with_what_to_do(self, tmp_path: Path) -> None:
        text = self.printed(tmp_path)
        found = re.search(
            r"Other machines reach it at (http://\S+:\d+) with this token, which is not shown again:\n\n"
            r"  export OPENENV_TOKEN=([\w-]{32})\n  openenv play \1\n",
            text,
        )
        assert found is not None, text
        assert "127.0.0.1" not in found[1]
        assert text.count(found[2]) == 1
        assert "Nothing is encrypted" in text
        assert found[2] not in self.printed(tmp_path)

    def test_one_s_own_token_is_not_repeated(self, tmp_path: Path) -> None:
        text = self.printed(tmp_path, OPENENV_TOKEN="a-token-of-the-user-s")
        assert "with the token that OPENENV_TOKEN holds here" in text
        assert "a-token-of-the-user-s" not in text

    def test_a_file_of_tokens_is_named_and_no_token_is_made(self, tmp_path: Path) -> None:
        file = tmp_path / "tokens.toml"
        file.write_text('[trainer]\ntoken = "of-the-trainer"\nrole = "play"\n')
        text = self.printed(tmp_path, "--tokens", file)
        assert f"with one of the tokens in {file}." in text
        assert "export" not in text
        assert "of-the-trainer" not in text

    def test_without_tokens_it_warns(self, tmp_path: Path) -> None:
        text = self.printed(tmp_path, "--auth", "none")
        assert re.search(r"Other machines reach it at http://\S+; no token is needed", text)
        assert "export" not in text

    @pytest.mark.parametrize("options", [(), ("--workers", 2)])
    @pytest.mark.parametrize(
        ("setting", "told"),
        [
            ('token="a-token-of-the-application-s"', "with the token that the environment's server sets."),
            ('auth="none"', "no token is needed."),
        ],
    )
    def test_what_the_application_sets_is_told(
        self, tmp_path: Path, options: tuple[object, ...], setting: str, told: str
    ) -> None:
        text = self.printed(tmp_path, *options, environment=with_settings(tmp_path, setting))
        assert re.search(rf"Other machines reach it at http://\S+:\d+;? {re.escape(told)}", text), text
        assert "export" not in text


@pytest.mark.parametrize("options", [(), ("--workers", 2)])
def test_with_a_token_of_all_one_is_made_on_loopback_too(tmp_path: Path, options: tuple[object, ...]) -> None:
    variables = {"OPENENV_TOKEN": ""}
    with serving("echo", "-p", 0, "--auth", "always", *options, cwd=tmp_path, variables=variables) as server:
        assert status_of(f"{server.url}/schema", {}) == 401
        server.process.terminate()
        assert server.process.stdout is not None
        text = server.process.stdout.read()
    found = re.search(r"You reach it at (\S+) with this token, .*:\n\n  export OPENENV_TOKEN=[\w-]{32}\n", text)
    assert found is not None, text
    assert found[1] == server.url
    assert "encrypted" not in text


@pytest.mark.parametrize("options", [(), ("--workers", 2)])
@pytest.mark.parametrize(
    ("setting", "auth", "told"),
    [
        ('auth="always"', "token", "the token that OPENENV_TOKEN holds here."),
        ("", "always", "the token that OPENENV_TOKEN holds here."),
        ('auth="always", token="of-the-application"', "token", "the token that the environment's server sets."),
    ],
)
def test_a_token_of_all_that_was_set_is_told_on_loopback_too(
    tmp_path: Path, options: tuple[object, ...], setting: str, auth: str, told: str
) -> None:
    folder = with_settings(tmp_path, setting)
    variables = {"OPENENV_TOKEN": "a-token-of-the-user-s", "OPENENV_AUTH": auth}
    with serving(folder, "-p", 0, *options, cwd=tmp_path, variables=variables) as server:
        assert status_of(f"{server.url}/schema", {}) == 401
        server.process.terminate()
        assert server.process.stdout is not None
        assert f"You reach it at {server.url} with {told}" in server.process.stdout.read()


@pytest.mark.parametrize("options", [(), ("--workers", 2)])
def test_an_application_that_would_deny_everybody_is_refused(
    openenv: Run, tmp_path: Path, options: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENENV_TOKEN", "")
    ended = openenv("serve", with_settings(tmp_path, 'auth="always"'), "-p", 0, *options)
    assert ended.returncode == 1
    assert "Expected a token for the application, which requires one of everybody" in ended.stderr
    assert "Serving" not in ended.stdout


def with_settings(tmp_path: Path, settings: str) -> Path:
    """Make an environment whose program passes settings to its application."""
    folder = scaffold(tmp_path, "my_env")
    app = folder / "server" / "app.py"
    app.write_text(app.read_text().replace("env_name=", f"{settings}, env_name=" if settings else "env_name="))
    return folder


def test_names_and_origins_may_be_given_more_than_once(tmp_path: Path) -> None:
    options = ("--allowed-host", "a.test", "--allowed-host", "*.b.test", "--allowed-origin", "https://c.test")
    with serving("echo", "-p", 0, *options, cwd=tmp_path) as server:
        for headers, status in (
            ({"Host": "a.test"}, 200),
            ({"Host": "x.b.test"}, 200),
            ({"Host": "c.test"}, 403),
            ({"Origin": "https://c.test"}, 200),
            ({"Origin": "https://a.test"}, 403),
        ):
            assert status_of(f"{server.url}/schema", headers) == status, headers


def status_of(url: str, headers: dict[str, str]) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_debug_tells_clients_where_an_environment_raised(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    environment = folder / "server" / "my_env_environment.py"
    environment.write_text(
        environment.read_text().replace("def reset(", "def reset(self, **_):\n        1 / 0\n\n    def _reset(")
    )
    token = {"OPENENV_TOKEN": "sesame-open"}
    cases: list[tuple[tuple[str, ...], dict[str, str], bool]] = [
        (("--host", "0.0.0.0", "--debug"), token, True),
        (("--host", "0.0.0.0"), token, False),
        ((), {}, True),
        ((), token, False),
        ((), {"OPENENV_DEBUG": "0"}, False),
    ]
    for options, variables, told in cases:
        with (
            serving(folder, "-p", 0, *options, cwd=tmp_path, variables=variables, stderr=subprocess.DEVNULL) as server,
            GenericEnvClient(base_url=server.url, token="sesame-open").sync() as client,
            pytest.raises(ServerExecutionError, match="division by zero") as caught,
        ):
            client.reset()
        assert ("ZeroDivisionError" in caught.value.details.get("traceback", "")) is told


def test_an_inherited_socket_is_used(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = {"pass_fds": [listener.fileno()]}
        with serving("echo", "--fd", listener.fileno(), cwd=tmp_path, **settings) as server:
            assert server.url == f"http://127.0.0.1:{listener.getsockname()[1]}"
            listener.close()
            assert health(server.url) == {"status": "healthy"}


def test_a_number_that_is_no_socket_is_told(openenv: Any, tmp_path: Path) -> None:
    ended = openenv("serve", "echo", "--fd", 917)
    assert ended.returncode == 1
    assert "Error: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_it_stops_when_its_input_ends(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving("echo", "-p", 0, "--stop-on-eof", cwd=tmp_path, stdin=subprocess.PIPE) as server:
        assert server.process.stdin is not None
        server.process.stdin.write("what is typed does not matter\n")
        server.process.stdin.flush()
        assert health(server.url) == {"status": "healthy"}
        with GenericEnvClient(base_url=server.url).sync() as client:
            client.reset()
            server.process.stdin.close()
            assert server.process.wait(60) == -signal.SIGTERM
    assert "draining" not in capfd.readouterr().err, "nobody is left to wait for"


def test_it_starts_anew_when_a_file_changes(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    with serving("my_env", "-p", 0, "--reload", cwd=tmp_path, start_new_session=True) as server:
        eventually(lambda: greeting(server.url) == "My Env environment ready!", "the server is ready")
        environment = folder / "server" / "my_env_environment.py"
        environment.write_text(environment.read_text().replace("My Env environment ready!", "Changed."))
        eventually(lambda: greeting(server.url) == "Changed.", "the change is served")
        os.killpg(server.process.pid, signal.SIGTERM)


def greeting(url: str) -> str | None:
    """Return what a reset says, or ``None`` while nothing answers."""
    request = urllib.request.Request(f"{url}/reset", data=b"{}", headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return str(json.load(response)["observation"]["echoed_message"])
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def test_workers_serve_one_port(tmp_path: Path) -> None:
    with (
        serving("echo", "-p", 0, "--workers", 2, "--max-sessions", 3, cwd=tmp_path) as server,
        ExitStack() as opened,
    ):
        for _ in range(3):
            client = opened.enter_context(GenericEnvClient(base_url=server.url).sync())
            client.reset()
            assert client.step({"message": "hello"}).reward == 0.5
        with pytest.raises(ServerCapacityError, match="3/3"):
            GenericEnvClient(base_url=server.url).sync().reset()
        assert server.end(signal.SIGINT) == 130


def test_workers_take_an_inherited_socket_and_stop_when_its_input_ends(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        early = socket.create_connection(listener.getsockname(), timeout=60)
        early.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        settings = {"pass_fds": [listener.fileno()], "stdin": subprocess.PIPE, "start_new_session": True}
        arguments = ("echo", "--fd", listener.fileno(), "--workers", 2, "--stop-on-eof")
        with serving(*arguments, cwd=tmp_path, **settings) as server, early:
            assert server.url == url
            assert early.recv(12) == b"HTTP/1.1 200"
            assert server.process.stdin is not None
            server.process.stdin.close()
            assert server.process.wait(60) == -signal.SIGTERM
            # The workers were in its process group.
            eventually(lambda: group_is_gone(server.process.pid), "no worker is left")


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--reload", "--workers", 2], "--reload restarts one process"),
        (["--reload", "--fd", 0], "--reload opens its own socket"),
        (["--sessions-per-process", 2], "needs --isolation process"),
    ],
)
def test_options_that_do_not_go_together(openenv_here: Any, options: list[object], told: str) -> None:
    ended = openenv_here("serve", "echo", *options)
    assert ended.returncode == 2
    assert told in " ".join(ended.stderr.split())


@pytest.mark.parametrize("workers", [1, 3])
def test_a_missing_dependency_is_one_line(openenv: Any, tmp_path: Path, workers: int) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "models.py").write_text("import no_such_library\n")
    ended = openenv("serve", "my_env", "-p", 0, "--workers", workers)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("Error: ")
    assert ended.stderr.count("\n") == 1
    assert "'no_such_library', which is not installed" in ended.stderr


def test_another_worlds_environment_is_served_by_workers_with_processes_of_their_own(tmp_path: Path) -> None:
    import gymnasium

    from openenv.adapters.gymnasium import GymnasiumVectorEnv

    theirs = gymnasium.make("FrozenLake-v1", is_slippery=True)
    target = "gymnasium:FrozenLake-v1?is_slippery=true"
    with serving(target, "-p", 0, "--workers", 2, "--isolation", "process", cwd=tmp_path) as server:
        envs = GymnasiumVectorEnv(server.url, num_envs=4)
        assert envs.single_observation_space == theirs.observation_space
        for seed in range(3):
            observations, _ = envs.reset(seed=[seed] * 4)
            assert observations.tolist() == [theirs.reset(seed=seed)[0]] * 4
            for action in (2, 1):
                seen, expected = envs.step([action] * 4), theirs.step(action)
                assert seen[0].tolist() == [expected[0]] * 4
        envs.close()
    theirs.close()


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("gymnasium:CartPol-v1", "Gymnasium has no environment 'CartPol-v1'. Did you mean CartPole-v1"),
        ("gymnasum:CartPole-v1", "No adapter has the prefix 'gymnasum'. Did you mean gymnasium?"),
    ],
)
def test_another_worlds_unknown_environment_is_one_line(openenv: Any, target: str, told: str) -> None:
    ended = openenv("serve", target, "-p", 0)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"Error: {told}")
    assert ended.stderr.count("\n") == 1


def test_another_worlds_environment_has_no_folder_to_watch(openenv: Any) -> None:
    ended = openenv("serve", "gymnasium:CartPole-v1", "--reload")
    assert ended.returncode == 2
    assert "gymnasium:CartPole-v1 has none" in ended.stderr


MCP_SERVER = PROGRAMS / "mcp_server.py"


def test_it_serves_the_tools_of_an_mcp_server(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"prompt": "Say four.", "answer": "4"}\n')
    (tmp_path / "score.py").write_text("def reward(task, calls, final): return final == task['answer']")
    arguments = ["--tasks", "tasks.jsonl", "--reward", "score.py:reward", "--mcp-env", "NOTES_KEY", "--workers", 2]
    command = f"{shlex.quote(sys.executable)} -S {shlex.quote(str(MCP_SERVER))}"
    variables = {"NOTES_KEY": "k-123", "OPENENV_TOKEN": "t-456-789"}
    with (
        serving("-p", 0, "--mcp-server", command, *arguments, cwd=tmp_path, variables=variables) as server,
        MCPToolClient(base_url=server.url, token="t-456-789").sync() as env,
    ):
        assert env.reset(seed=1).observation.prompt == "Say four."
        assert env.call_tool("variable", name="NOTES_KEY") == "k-123"
        assert env.call_tool("variable", name="OPENENV_TOKEN") == "(none)"
        assert env.step(CallToolAction(tool_name="submit", arguments={"answer": "4"})).reward == 1.0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tasks", "tasks.jsonl"], "--mcp-server, which is missing"),
        (["echo", "--mcp-server", "cat"], "leave out echo"),
        (["--mcp-server", "cat", "--reload"], "mcp-server has none"),
        (["--mcp-server", "no-such-program"], "there is no program 'no-such-program'"),
    ],
)
def test_what_can_t_be_served_of_an_mcp_server(openenv: Run, arguments: list[str], told: str) -> None:
    ended = openenv("serve", *arguments)
    assert ended.returncode != 0
    assert re.search(told, ended.stderr)
