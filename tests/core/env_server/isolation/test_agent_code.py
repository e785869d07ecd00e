"""Code of agents runs in a confined process of the session's own, on servers that are open to their machine alone."""

import logging
import os
import platform
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.environments.agent_code import Coder, Delegating, make_coder, make_unknown
from tests.support.environments.tools import Notes
from tests.support.servers import RunningServer, Wire

from openenv.core.confinement import can_confine
from openenv.core.env_server.app import HTTPEnvServer, create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

pytestmark = pytest.mark.timeout(180)

confined = pytest.mark.skipif(not can_confine(), reason="this machine has no Landlock: a newer kernel brings it")

KERNEL = [int(number) for number in re.findall(r"\d+", platform.release())[:2]]
SECRET = "".join(reversed("drow-terces-eht"))
"""Put together when it runs, so that no pickled code holds it."""
OPEN = "".join(reversed("drow-nepo-eht"))
NAMES = (
    "OPENENV_TEST_API_KEY",
    "OPENENV_TEST_STORE",
    "OPENENV_TEST_OTHER_STORE",
    "OPENENV_TEST_DB_PASS",
    "OPENENV_TEST_LOADED_TOKEN",
)
"""The last is set by the environment's module."""


def serve(env: Any = Coder, **settings: Any) -> RunningServer:
    return RunningServer(create_app(env, CallToolAction, CallToolObservation, max_concurrent_envs=8, **settings))


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as variables:
        for name in ("OPENENV_TOKEN", "OPENENV_AUTH", "OPENENV_ISOLATION"):
            variables.delenv(name, raising=False)
        variables.setenv(NAMES[0], SECRET)
        variables.setenv(NAMES[1], f"postgresql://me:{SECRET}@db.example/traces")
        variables.setenv(NAMES[2], f"postgresql://db.example/traces?password={SECRET}")
        variables.setenv(NAMES[3], SECRET)
        variables.setenv("OPENENV_TEST_LOADS", NAMES[4])
        variables.setenv("OPENENV_TEST_OPEN", OPEN)
        variables.setattr(sys, "argv", [sys.argv[0], f"--secret={SECRET}"])
        with serve() as running:
            yield running


def call(wire: Wire, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = wire.step(type="call_tool", tool_name=tool, arguments=arguments)
    assert answer["type"] == "observation", answer
    observation: dict[str, Any] = answer["data"]["observation"]
    return observation


def run(wire: Wire, code: str) -> Any:
    """Run code of an agent; return its ``result``, or the error."""
    metadata = call(wire, "run", code=textwrap.dedent(code))["result"]["data"]
    return metadata["result"] if "result" in metadata else metadata["error"]


@confined
class TestConfined:
    @pytest.mark.level("process")
    def test_code_calls_the_tools(self, server: RunningServer) -> None:
        with server.wire() as wire:
            wire.reset()
            assert run(wire, "result = add(a=1, b=2) * 2") == 6
            assert run(wire, "1 / 0") == "division by zero"

    def test_each_session_has_a_process_of_its_own(self, server: RunningServer) -> None:
        with server.wire() as one, server.wire() as other:
            processes = {call(wire, "process")["result"]["data"] for wire in (one, other)}
            processes |= {run(wire, "import os; result = os.getpid()") for wire in (one, other)}
        assert len(processes) == 2
        assert os.getpid() not in processes

    def test_the_server_s_secrets_are_no_variables_there(self, server: RunningServer) -> None:
        code = """
            import os
            from pathlib import Path
            result = [dict(os.environ), Path("/proc/self/environ").read_text()]
        """
        with server.wire() as wire:
            variables, block = run(wire, code)
        assert variables["PATH"] == os.environ["PATH"]
        assert not {*NAMES} & variables.keys()
        assert SECRET not in str(variables) + block

    def test_nor_are_they_in_its_memory(self, server: RunningServer) -> None:
        # The code has no whole word itself, but all except its last letter.
        code = """
            from pathlib import Path
            def count(beginning, letter):
                found = 0
                with open("/proc/self/mem", "rb", 0) as memory:
                    for line in Path("/proc/self/maps").read_text().splitlines():
                        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                        if "[v" in line or "r" not in line.split()[1]:
                            continue
                        try:
                            memory.seek(begin)
                            after = memory.read(end - begin).split(beginning)[1:]
                        except (OSError, OverflowError):
                            continue
                        found += sum(part.startswith(letter) for part in after)
                return found
            result = [count(b"the-secret-wor", b"d"), count(b"the-open-wor", b"d") > 0]
        """
        with server.wire() as wire:
            assert run(wire, code) == [0, True]

    def test_nor_are_the_program_s_arguments(self, server: RunningServer) -> None:
        with server.wire() as wire:
            assert run(wire, "import sys; result = sys.argv[1:]") == []

    @pytest.mark.parametrize("file", ["environ", "mem", "maps"])
    def test_it_can_not_look_into_the_processes_outside(self, server: RunningServer, file: str) -> None:
        code = f"""
            import os
            def look(process):
                try:
                    with open(f"/proc/{{process}}/{file}", "rb") as opened:
                        return len(opened.read(1))
                except PermissionError:
                    return "refused"
            result = [look(process) for process in ({os.getpid()}, {{other}}, os.getppid())]
        """
        with server.wire() as wire, server.wire() as neighbour:
            other = call(neighbour, "process")["result"]["data"]
            assert run(wire, code.replace("{other}", str(other))) == ["refused"] * 3

    def test_nor_trace_them(self, server: RunningServer) -> None:
        code = f"""
            import ctypes
            libc = ctypes.CDLL(None, use_errno=True)
            result = [libc.ptrace(0x4206, {os.getpid()}, None, None), ctypes.get_errno()]  # PTRACE_SEIZE
        """
        with server.wire() as wire:
            assert run(wire, code) == [-1, 1]  # EPERM

    @pytest.mark.skipif(KERNEL < [6, 12], reason="Landlock confines signals from Linux 6.12 on")
    def test_nor_signal_them(self, server: RunningServer) -> None:
        with server.wire() as wire:
            assert run(wire, f"import os; os.kill({os.getpid()}, 0)") == "[Errno 1] Operation not permitted"

    def test_it_has_no_capabilities_and_gets_none(self, server: RunningServer) -> None:
        code = """
            import subprocess
            result = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
        """
        with server.wire() as wire:
            status = dict(line.split(":\t", 1) for line in run(wire, code).splitlines() if ":\t" in line)
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
        assert status["NoNewPrivs"] == "1"

    def test_files_are_renamed_between_folders_all_the_same(self, server: RunningServer, tmp_path: Path) -> None:
        (tmp_path / "to").mkdir()
        (tmp_path / "file").write_text("here")
        code = f"""
            import os
            os.rename("{tmp_path}/file", "{tmp_path}/to/file")
            result = open("{tmp_path}/to/file").read()
        """
        with server.wire() as wire:
            assert run(wire, code) == "here"

    @pytest.mark.parametrize("env", [Coder, Delegating, make_coder])
    def test_a_warning_says_so_once(self, env: Any, caplog: pytest.LogCaptureFixture, clean: None) -> None:
        config = HTTPEnvServer(env, CallToolAction, CallToolObservation).config
        assert (config.isolation, config.sessions_per_process) == ("process", 1)
        [record] = caplog.records
        said = record.getMessage()
        assert "lets agents run code: each session has a confined process of its own." in said
        assert NAMES[0] in said
        assert '.CODE_SANDBOX = "none"' in said
        assert SECRET not in said


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A server's machine with a secret, whose log is read."""
    for name in ("OPENENV_TOKEN", "OPENENV_AUTH", "OPENENV_ISOLATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(NAMES[0], SECRET)
    caplog.set_level(logging.WARNING, "openenv")


@pytest.mark.usefixtures("clean")
class TestRefused:
    """The server starts, its other tools work, and ``execute_code`` says what to do."""

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"token": "a-token-of-the-test"}, "the server is open to other machines, since it has a token"),
            ({"auth": "none"}, "the server is open to other machines, since it has a token or requires none"),
            ({"isolation": "none"}, 'it needs isolation="process" and sessions_per_process=1'),
            (
                {"isolation": "process", "sessions_per_process": 2},
                'it needs isolation="process" and sessions_per_process=1',
            ),
        ],
    )
    def test_where_others_could_be_harmed(
        self, settings: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with serve(**settings) as running, running.wire() as wire:
            assert said in caplog.text
            assert call(wire, "add", a=1, b=2)["result"]["data"] == 3
            message = call(wire, "run", code="result = 1")["error"]["message"]
        assert "which is not confined" in message
        assert 'set Coder.CODE_SANDBOX = "none"' in message

    def test_where_another_process_can_not_make_the_environment(self, caplog: pytest.LogCaptureFixture) -> None:
        server = HTTPEnvServer(Coder(), CallToolAction, CallToolObservation)
        assert server.config.isolation == "none"
        assert "Coder lets agents run code, which is refused here: Coder was given as one instance" in caplog.text

    def test_where_its_class_is_not_known(self) -> None:
        with serve(make_unknown) as running, running.wire() as wire:
            message = call(wire, "run", code="result = 1")["error"]["message"]
        assert "a function that is annotated to return it" in message

    def test_a_variable_is_not_overruled(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("OPENENV_ISOLATION", "none")
        assert HTTPEnvServer(Coder, CallToolAction, CallToolObservation).config.isolation == "none"
        assert 'it needs isolation="process"' in caplog.text


@pytest.mark.usefixtures("clean")
def test_other_environments_stay_where_they_are(caplog: pytest.LogCaptureFixture) -> None:
    assert HTTPEnvServer(Notes).config.isolation == "none"
    assert not caplog.records
