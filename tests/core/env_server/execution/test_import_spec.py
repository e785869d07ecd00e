"""What a fresh interpreter can import, and what is said of the rest."""

import importlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import write_files

from openenv.core.env_server.execution.import_spec import ImportSpec
from openenv.core.exceptions import ConfigurationError
from openenv.core.import_guard import refuse_while_importing

# What the other process does with what it gets on its standard input: import it, call it, print what that gives.
CALL = "import pickle, sys; print(pickle.load(sys.stdin.buffer).load()())"
PRINT = "import pickle, sys; print(pickle.load(sys.stdin.buffer).load())"


def describe(value: Any) -> ImportSpec:
    return ImportSpec.of(value, "this", needed_for="that=1", instead="that=0")


def run(*arguments: str, cwd: Path | None = None, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *arguments], input=given, cwd=cwd, capture_output=True, timeout=60)


def elsewhere(program: str, importable: ImportSpec) -> str:
    ended = run("-c", program, given=pickle.dumps(importable))
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


def test_a_function_brings_its_arguments() -> None:
    assert elsewhere(CALL, describe(partial(divmod, 17, 5))) == "(3, 2)\n"


def test_several_go_together() -> None:
    assert elsewhere(PRINT, describe((dict, Path))) == "(<class 'dict'>, <class 'pathlib.Path'>)\n"


def test_what_is_of_python_itself_is_not_imported_a_second_time() -> None:
    """Some of its modules, ``posixpath`` among them, have no file as their origin, though they have one."""
    program = "import os, pickle, sys; print(pickle.load(sys.stdin.buffer).load() is os.path.join)"
    assert elsewhere(program, describe(os.path.join)) == "True\n"


class TestTheProgramItself:
    """What it defines is found by importing it once more, as ``multiprocessing`` does."""

    PROGRAM = """
        import pickle, subprocess, sys
        from functools import partial
        from openenv.core.env_server.execution.import_spec import ImportSpec
        {relative}

        def describe(function):
            return ImportSpec.of(function, "this", needed_for="that=1", instead="that=0")

        class Named:
            pass

        def name():
            return Named.__name__, sys.argv[1:], __name__

        def pass_on(function):
            command = [sys.executable, "-c", {call!r}]
            ended = subprocess.run(command, input=pickle.dumps(describe(function)), capture_output=True)
            return ended.stdout.decode().strip() or ended.stderr.decode()

        describe(name)  # as a program does that has its application at the top
        if __name__ == "__main__":
            print(pass_on({function}))
        """

    @pytest.mark.parametrize("function", ["name", "partial(pass_on, name)"], ids=["once", "twice"])
    @pytest.mark.parametrize("how", [["main.py"], ["-m", "main"], ["-m", "package.main"]], ids=" ".join)
    def test_is_imported(self, how: list[str], function: str, tmp_path: Path) -> None:
        relative = "from . import other" if "package.main" in how else ""
        program = self.PROGRAM.format(relative=relative, function=function, call=CALL)
        write_files(tmp_path, {"main.py": program, "package/main.py": program, "package/other.py": ""})
        assert run(*how, "x", cwd=tmp_path).stdout == b"('Named', ['x'], '__mp_main__')\n"

    def test_keeps_its_choice_of_how_multiprocessing_starts_processes(self, tmp_path: Path) -> None:
        program = """
            import multiprocessing
            from openenv.core.env_server.execution.import_spec import ImportSpec

            def mine(): pass

            ImportSpec.of(mine, "this", needed_for="that=1", instead="that=0")
            multiprocessing.set_start_method("spawn")
            """
        write_files(tmp_path, {"main.py": program})
        assert run("main.py", cwd=tmp_path).stderr == b""


class TestRefusals:
    @pytest.mark.parametrize("value", [lambda: 1, partial(lambda: 1)], ids=["lambda", "partial"])
    def test_what_has_no_name_to_be_imported_by(self, value: Any) -> None:
        said = r"^that=1 needs this to be importable .* not possible: .*<lambda>.*top level of a module.*with that=0\.$"
        with pytest.raises(ConfigurationError, match=said):
            describe(value)

    @pytest.mark.parametrize("argument", [(each for each in "abc"), threading.Lock()], ids=["generator", "lock"])
    def test_what_can_not_be_pickled(self, argument: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"cannot pickle '.*arguments that can be pickled"):
            describe(partial(print, argument))

    def test_what_was_typed_into_an_interpreter(self) -> None:
        program = b"""if 1:
            from openenv.core.env_server.execution.import_spec import ImportSpec
            def name(): pass
            ImportSpec.of(name, "this", needed_for="that=1", instead="that=0")
            """
        assert b"not possible: it was typed into an interpreter" in run("-", given=program).stderr


class TestItsOwner:
    """The process at the other end of a socket, without which nothing is to be imported."""

    LOAD = """if 1:
        import pickle, select, socket, sys
        owner = socket.socket(fileno=int(sys.argv[1]))
        importable = pickle.load(sys.stdin.buffer)
        importable.load(owner)
        print("imported", flush=True)
        select.select([owner], [], [])
        print(owner.recv(9), owner.recv(9))
        """
    # In C, and with the GIL.
    HANG = """
        import re
        if __name__ == "__mp_main__":
            print("importing", flush=True)
            re.match(r"(a+)+$", "a" * 60 + "b")
        """

    @pytest.fixture
    def owner(self) -> Iterator[socket.socket]:
        owner, self.line = socket.socketpair()
        with owner, self.line:
            yield owner

    @pytest.fixture
    def process(self, owner: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
        line = self.line.fileno()
        command = [sys.executable, "-c", self.LOAD, str(line)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[line], bufsize=0
        ) as process:
            self.line.close()
            yield process
            process.kill()

    @pytest.fixture
    def hanging(self, tmp_path: Path) -> ImportSpec:
        write_files(tmp_path, {"hanging.py": self.HANG})
        return replace(describe(dict), preparation={"init_main_from_path": str(tmp_path / "hanging.py")})

    def give(self, process: subprocess.Popen[bytes], importable: ImportSpec) -> bytes:
        """Say what to import; return what the process says to that."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pickle.dumps(importable))
        return process.stdout.readline()

    def test_takes_along_a_process_that_hangs_in_the_import(
        self, process: subprocess.Popen[bytes], owner: socket.socket, hanging: ImportSpec
    ) -> None:
        assert self.give(process, hanging) == b"importing\n"
        owner.close()
        assert process.wait(60) == -signal.SIGIO

    def test_may_have_gone_before(
        self, process: subprocess.Popen[bytes], owner: socket.socket, hanging: ImportSpec
    ) -> None:
        owner.close()
        assert self.give(process, hanging) == b""
        assert process.wait(60) == -signal.SIGKILL

    def test_may_speak_and_go_once_it_is_imported(self, process: subprocess.Popen[bytes], owner: socket.socket) -> None:
        assert self.give(process, describe(dict)) == b"imported\n"
        owner.sendall(b"a word")
        owner.close()
        output, _ = process.communicate(timeout=60)
        assert output == b"b'a word' b''\n"
        assert process.returncode == 0


class TestStartingAServer:
    def test_is_refused_to_what_is_being_imported_and_then_allowed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        serving = """
            from openenv.core.import_guard import refuse_while_importing
            refuse_while_importing()
            class Served: pass
            """
        write_files(tmp_path, {"serving_when_imported.py": serving})
        monkeypatch.syspath_prepend(tmp_path)
        importable = describe(importlib.import_module("serving_when_imported").Served)
        monkeypatch.delitem(sys.modules, "serving_when_imported")
        with pytest.raises(ConfigurationError, match=r"imported, and that=1 imports it once more.*__main__"):
            importable.load()
        refuse_while_importing()
