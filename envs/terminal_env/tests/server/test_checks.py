from collections.abc import Iterator

import pytest

from openenv.core.sandbox import Sandbox
from terminal_env.server.boxes import shared_pool
from terminal_env.server.checks import Checker
from terminal_env.server.task_format import (
    Check,
    FileCheck,
    FolderCheck,
    JsonCheck,
    ProgramCheck,
    RepositoryCheck,
)

pytestmark = pytest.mark.needs("sandbox")


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with shared_pool("auto").take() as taken:
        yield taken


def passes(sandbox: Sandbox, check: Check) -> bool:
    return Checker(sandbox, shared_pool("auto")).passes(check)


def test_a_file_is_compared_line_by_line_without_what_is_not_seen(sandbox: Sandbox) -> None:
    check = FileCheck(name="a", path="a/b.txt", text="one\n two")
    for text, right in {
        "one\n two": True,
        "one  \n two\n\n": True,
        "one\ntwo": False,
        "\none\n two": False,
        "": False,
    }.items():
        sandbox.write_file("a/b.txt", text)
        assert passes(sandbox, check) == right


@pytest.mark.parametrize(
    "trick",
    [
        "ln -s /work/right a.txt",
        "ln -s right a.txt",
        "mkdir a.txt",
        "mkfifo a.txt",
        "head -c 5000000 /dev/zero > a.txt",
        r"printf '\377' > a.txt",
    ],
)
def test_what_is_no_plain_text_file_is_not_right(sandbox: Sandbox, trick: str) -> None:
    sandbox.write_file("right", "42")
    sandbox.shell(trick)
    assert not passes(sandbox, FileCheck(name="a", path="a.txt", text="42"))
    sandbox.shell("rm -rf a.txt && cp right a.txt")
    assert passes(sandbox, FileCheck(name="a", path="a.txt", text="42"))


def test_json_is_compared_by_value_and_kind(sandbox: Sandbox) -> None:
    sandbox.write_file("a.json", '{"a": [1, {"b": null}], "c": true}')

    def holds(*keys: str | int, value: object = None, missing: bool = False) -> bool:
        return passes(sandbox, JsonCheck(name="a", path="a.json", keys=keys, value=value, missing=missing))

    assert holds("a", 1, value={"b": None})
    assert holds("a", 1, "b")
    assert holds("c", value=True)
    assert holds("a", 2, missing=True)
    assert holds("d", missing=True)
    assert not holds("c", missing=True)
    assert not holds("c", value=1)
    assert not holds("c", "d", value=True)
    assert not holds("a", value=[1, {"b": 0}])
    for text in ("[" * 100_000, "{", '{"a": 1}x', ""):
        sandbox.write_file("a.json", text)
        assert not holds("a", value=1)


def test_a_folder_has_these_files_and_no_others(sandbox: Sandbox) -> None:
    check = FolderCheck(name="f", path="f", files={"a": "1", "b/c d": "2"})
    assert not passes(sandbox, check)
    sandbox.write_file("f/a", "1\n")
    sandbox.write_file("f/b/c d", "2")
    assert passes(sandbox, check)
    for trick in (
        "touch f/more",
        "ln -s a f/more",
        r"touch 'f/b/a'$'\n''b'",
        "mv f/a g; ln -s ../g f/a",
        "mv f g; ln -s g f",
    ):
        sandbox.shell(trick)
        assert not passes(sandbox, check), trick
        sandbox.shell("rm -rf f/more f/b/a*; [ -L f ] && rm f && mv g f; [ -L f/a ] && rm f/a && mv g f/a")
        assert passes(sandbox, check), trick
    assert passes(sandbox, FolderCheck(name="f", path="none", files={}))
    assert not passes(sandbox, FolderCheck(name="f", path="f", files={}))


@pytest.mark.parametrize("trick", ["chmod 000 f", "mv f g; ln -s g f", "chmod 000 f/b; rm f/a"])
def test_a_folder_that_can_not_be_looked_into_is_not_empty(sandbox: Sandbox, trick: str) -> None:
    empty = FolderCheck(name="f", path="f", files={})
    sandbox.write_file("f/a", "1")
    sandbox.write_file("f/b/c: No such file or directory\n", "1")
    sandbox.shell(trick)
    assert not passes(sandbox, empty)
    sandbox.shell("chmod -R 700 f; rm -rf f")
    assert passes(sandbox, empty)
    sandbox.shell("mkdir -p f/b")
    assert passes(sandbox, empty)


def program(output: str) -> ProgramCheck:
    command = ("python3", "-I", "double.py", "in.txt")
    return ProgramCheck(name="p", copies=("double.py",), files={"in.txt": "21"}, command=command, output=output)


def test_a_program_runs_elsewhere_on_copies(sandbox: Sandbox) -> None:
    assert not passes(sandbox, program("42"))
    sandbox.write_file("double.py", "import sys\nprint(2 * int(open(sys.argv[1]).read()))")
    assert passes(sandbox, program("42"))
    assert not passes(sandbox, program("41"))
    # Nothing of the check is where the agent could find it.
    assert "in.txt" not in sandbox.shell("ls -a").stdout


@pytest.mark.parametrize(
    "source",
    [
        "import os; os._exit(0)",
        "print(42); raise SystemExit(1)",
        "print('x' * 10**6)",
        "while True: pass",
        "import os; os.kill(-1, 9)",
        "print(open('/work/answer.txt').read())",
        "import glob; print([open(f).read() for f in glob.glob('/work/**', recursive=True) if "
        "f.endswith('expected')][0])",
    ],
)
def test_a_program_that_does_something_else_is_not_right(sandbox: Sandbox, source: str) -> None:
    sandbox.write_file("double.py", source)
    sandbox.write_file("answer.txt", "42")
    assert not passes(sandbox, program("42"))


COMMIT = (
    "git init -q -b main p && cd p && git config user.name a && git config user.email a@b && echo 1 > a && git add a "
    "&& "
    "git commit -qm one && cd .."
)
CHECK = RepositoryCheck(name="r", path="p", files={"a": "1"}, subjects=("one",))


def test_a_repository_is_judged_by_its_commits(sandbox: Sandbox) -> None:
    assert not passes(sandbox, CHECK)
    sandbox.shell(COMMIT)
    assert passes(sandbox, CHECK)
    sandbox.shell("rm p/a")  # what lies in the folder does not count
    assert passes(sandbox, CHECK)
    sandbox.shell("cd p && git gc -q && git pack-refs --all && cd ..")
    assert passes(sandbox, CHECK)
    assert not passes(sandbox, CHECK.model_copy(update={"subjects": ("one", "two")}))
    assert not passes(sandbox, CHECK.model_copy(update={"files": {"a": "2"}}))
    assert not passes(sandbox, CHECK.model_copy(update={"files": {"b": ""}}))
    assert not passes(sandbox, CHECK.model_copy(update={"branch": "other"}))


@pytest.mark.parametrize(
    "trick",
    [
        "cd p && git config core.fsmonitor 'echo 2; true' && git config core.pager 'echo 2' && git config alias.log "
        "'!echo one'",
        "cd p && printf '#!/bin/sh\\necho 2' > .git/hooks/post-checkout && chmod +x .git/hooks/*",
        "cd p && echo 2 > a && git hash-object -w a | xargs git replace $(git rev-parse main:a)",
        "mkdir q && mv p/.git q/.git && echo 'gitdir: ../q/.git' > p/.git",
        "echo '/work/q' > p/.git/commondir",
        "rm -rf p/.git/objects",
        "ln -s /work/x .openenv-check.tar",
        "mkdir -p .openenv-check.tar/x",
    ],
)
def test_tricks_in_a_repository_change_nothing(sandbox: Sandbox, trick: str) -> None:
    sandbox.shell(COMMIT)
    sandbox.shell(trick)
    assert not passes(sandbox, CHECK.model_copy(update={"files": {"a": "2"}}))
    assert not passes(sandbox, CHECK.model_copy(update={"subjects": ("two",)}))
