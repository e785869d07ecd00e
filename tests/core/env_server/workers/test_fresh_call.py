"""Calls that a fresh interpreter makes."""

import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.environment_folders import write_files

from openenv.core.env_server.workers.fresh_call import FreshCall
from openenv.core.exceptions import ConfigurationError

# What a worker does with a call that it gets on its standard input.
MAKE = "import pickle, sys; print(pickle.load(sys.stdin.buffer)())"


def in_a_fresh_interpreter(call: FreshCall) -> str:
    return subprocess.run([sys.executable, "-c", MAKE], input=pickle.dumps(call), capture_output=True).stdout.decode()


def test_a_function_with_arguments_is_called_elsewhere() -> None:
    assert in_a_fresh_interpreter(FreshCall.of(partial(divmod, 17, 5))) == "(3, 2)\n"


@pytest.mark.parametrize("how", [["main.py"], ["-m", "main"]])
def test_what_the_program_itself_defines_is_found_by_importing_it_once_more(how: list[str], tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "main.py": f"""
                import pickle, subprocess, sys
                from openenv.core.env_server.workers.fresh_call import FreshCall

                class Named:
                    pass

                def name():
                    return f"{{Named.__name__}} {{sys.argv[1:]}} {{__name__}}"

                if __name__ == "__main__":
                    call = pickle.dumps(FreshCall.of(name))
                    print(subprocess.run([sys.executable, "-c", {MAKE!r}], input=call, capture_output=True, text=False))
                """
        },
    )
    ended = subprocess.run([sys.executable, *how, "x"], cwd=tmp_path, capture_output=True, text=True)
    assert "Named ['x'] __mp_main__" in ended.stdout


@pytest.mark.parametrize("function", [lambda: 1, partial(lambda: 1)])
def test_what_can_not_be_imported_is_refused(function: partial[int]) -> None:
    with pytest.raises(ConfigurationError, match="at the top level of a module, or serve it with workers=1"):
        FreshCall.of(function)


def test_what_can_not_be_pickled_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot pickle"):
        FreshCall.of(partial(print, (each for each in "abc")))


def test_what_was_typed_into_an_interpreter_is_refused() -> None:
    program = """if 1:
        from openenv.core.env_server.workers.fresh_call import FreshCall
        def name(): pass
        FreshCall.of(name)
        """
    ended = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True)
    assert "it was defined in an interactive session" in ended.stderr
