"""YAML, JSON and TOML of strangers: valid text is read, hostile text is refused at once and within little memory."""

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.documents import (
    MAX_YAML_BYTES,
    DocumentError,
    draft_of,
    is_draft,
    new_folder,
    parse_json,
    parse_toml,
    parse_yaml,
    read_json,
    read_lines,
    read_text,
    read_toml,
    read_yaml,
    write_json,
)
from openenv.core.exceptions import ConfigurationError

ALIASES = "name: my_env\na: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)
"""Some three hundred bytes for half a billion values."""

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(codec="ascii"), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
)


@given(values)
def test_yaml_is_read_as_by_the_safe_loader(value: Any) -> None:
    shared = [value, {"again": value}]  # PyYAML writes what stands twice as an anchor and an alias
    assert parse_yaml(yaml.safe_dump(shared)) == shared


@given(st.text("&*ab[]{}:,- \n!?|>'\"<1.", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(DocumentError):  # any other error is a fault
        parse_yaml(text)


@pytest.mark.level("files")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ALIASES, "expected fewer values"),
        (f"a: &a {'x' * 10_000}\nb: &b [{', '.join(['*a'] * 200)}]\n", "expected fewer values"),
        ("a: &a {b: *a}", "no alias inside the value"),
        ("a: &a [[*a]]", "no alias inside the value"),
        ("[" * 100 + "]" * 100, "at most 64 deep"),
        ("[" * 50_000, "at most 64 deep"),
        ("x" * (MAX_YAML_BYTES + 1), "expected at most 262144 bytes"),
        ("2026-02-30", "day"),
        ("9" * 5_000, "digits"),
        ("a: *b", "undefined alias"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
    ],
)
def test_hostile_yaml_is_refused(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        parse_yaml(text)


def test_a_file_of_aliases_costs_little(tmp_path: Path) -> None:
    folder = tmp_path / "hostile_env"
    folder.mkdir()
    (folder / "openenv.yaml").write_text(ALIASES)
    gigabyte = 1024**3
    done = subprocess.run(
        [sys.executable, "-m", "openenv.cli", "validate", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (gigabyte, gigabyte)),
    )
    assert done.returncode == 1
    assert "expected fewer values, each alias counted as what it stands for" in " ".join(done.stdout.split())


DEEP_KEYS = {
    "a key": ".".join("a" * 20_000) + " = 1",
    "a key in quotes": " . ".join(['"a\\"b"'] * 5_000) + " = 1",
    "a key in single quotes": ".".join(["'a\\'"] * 5_000) + " = 1",
    "a table": "[" + ".".join("a" * 20_000) + "]",
    "tables": "[[" + "\t.\t".join("a" * 20_000) + "]]",
    "an inline table": "x = {" + ".".join("é" * 20_000) + " = 1}",
}


@pytest.mark.parametrize("text", DEEP_KEYS.values(), ids=DEEP_KEYS)
def test_toml_keys_of_thousands_of_parts_are_refused_without_reading_them(text: str) -> None:
    with pytest.raises(DocumentError, match="keys of at most 16 parts"):
        parse_toml(text)


def test_quotes_that_nothing_closes_take_no_time_beyond_their_length() -> None:
    with pytest.raises(DocumentError):
        parse_toml('"\\' * 400_000)


LONG_NUMBERS = {
    "base 60": "1" + ":1" * 120_000,
    "base 16": "steps: 0x" + "f" * 200_000,
    "base 8": "[0" + "7" * 200_000 + "]",
    "base 2": "0b" + "1" * 200_000,
    "a key": "-" + "9_" * 100_000 + "9: x",
}


@pytest.mark.parametrize("text", LONG_NUMBERS.values(), ids=LONG_NUMBERS)
def test_whole_numbers_that_python_could_not_write_are_refused_without_reading_them(text: str) -> None:
    with pytest.raises(DocumentError, match="at most 3500 digits"):
        parse_yaml(text)


def test_neither_are_those_of_toml() -> None:
    with pytest.raises(DocumentError, match="at most 3500 digits"):
        parse_toml("steps = 0x" + "f" * 900_000)
    assert parse_toml(f'digest = "0x{"f" * 3000}"\nsteps = 0x10')["steps"] == 16
    assert parse_yaml("{hours: 12:30:00, mask: 0xff}") == {"hours": 45_000, "mask": 255}


def test_texts_of_many_points_are_no_keys() -> None:
    numbers = ", ".join(f"{number}.5" for number in range(100))
    text = f'a.b."c.d".e = "{"one. two, " * 100}"\nf = [{numbers}]\n# {"g . " * 15}\n["{"." * 100}"]\n'
    assert set(parse_toml(text)) == {"a", "f", "." * 100}


def test_json_of_many_values_is_refused_without_making_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.core.documents._MAX_JSON_VALUES", 1000)
    for text in ("[" + "[]," * 501 + "[]]", b"[" + b"1," * 1000 + b"1]", b'{"a": ' * 1001):
        with pytest.raises(DocumentError, match="at most 1000 values"):
            parse_json(text)
    assert parse_json("[" + "1," * 998 + "1]") == [1] * 999


@pytest.mark.parametrize("text", ["!!bool x", "!!timestamp x", "1" + ":59" * 1000 + ".5", "!!omap x", "? [a]\n: b"])
def test_yaml_of_impossible_values_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        parse_yaml(text)


@pytest.mark.parametrize("read", [read_yaml, read_json, read_toml, read_text, lambda file: list(read_lines(file))])
def test_a_pipe_and_a_device_are_refused_at_once(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(ConfigurationError, match=f"{file}: can't be read, since it is no regular file"):
            read(file)
    with pytest.raises(ConfigurationError, match="There is no file"):
        read(tmp_path / "nothing")


def test_lines_are_read_one_after_another_within_their_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.core.documents.MAX_LINE_BYTES", 10)
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"[1]\n\n123456789\n[2]")
    assert list(read_lines(file)) == [b"[1]\n", b"\n", b"123456789\n", b"[2]"]
    file.write_bytes(b"[1]\n1234567890\n")
    with pytest.raises(ConfigurationError, match=r"lines\.jsonl: expected lines of at most 10 bytes"):
        list(read_lines(file))


def test_a_text_is_read_within_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM é")
    assert read_text(file) == "FROM é"
    with pytest.raises(ConfigurationError, match="expected at most 6 bytes"):
        read_text(file, 6)
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="is not UTF-8 text"):
        read_text(file)


@pytest.mark.parametrize("parse", [parse_json, parse_toml])
def test_deep_nesting_is_refused(parse: Any) -> None:
    with pytest.raises(DocumentError, match="nested too deeply"):
        parse("a = " * (parse is parse_toml) + "[" * 100_000 + "]" * 100_000)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(DocumentError, match="Expecting value"):
        parse_json("nothing")
    with pytest.raises(DocumentError, match="digits"):
        parse_json("9" * 5_000)


def test_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    with pytest.raises(ConfigurationError, match=r"There is no file .*recipe\.yaml"):
        read_yaml(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"recipe\.yaml: is not UTF-8 text"):
        read_yaml(file)
    file.write_text(ALIASES)
    with pytest.raises(ConfigurationError, match=r"recipe\.yaml: is not valid YAML; mend this: expected fewer"):
        read_yaml(file)
    with pytest.raises(ConfigurationError, match="can't be read"):
        read_yaml(tmp_path)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    write_json(file, {"mean": 0.5})
    with draft_of(file) as first, draft_of(file) as second:  # two processes may write at once
        first.write_text('"first"')
        second.write_text('"second"')
        assert read_json(file) == {"mean": 0.5}
    assert read_json(file) == "first"
    (tmp_path / "plain").touch()
    assert file.stat().st_mode == (tmp_path / "plain").stat().st_mode, "others may read it, as any new file"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "scores.json"]


class FaultError(Exception):
    """The fault in the middle."""


def write_half(file: Path, *, replaces: bool = True) -> None:
    with draft_of(file, replaces=replaces) as draft:
        draft.write_text("half of")
        raise FaultError


def write_late(path: Path, *, is_folder: bool) -> None:
    """Write what is not to replace anything, while another process writes it."""
    with draft_of(path, replaces=False) as draft:
        for each, text in ((draft, "mine"), (path, "theirs")):
            if is_folder:
                each.mkdir()
                (each / "1.json").write_text(text)
            else:
                each.write_text(text)


@pytest.mark.parametrize("replaces", [True, False])
def test_a_file_whose_writing_fails_is_as_it_was(tmp_path: Path, replaces: bool) -> None:
    file = tmp_path / "results.json"
    for before in (None, "whole"):
        if before is not None:
            file.write_text(before)
        with pytest.raises(FaultError):
            write_half(file, replaces=replaces)
        with pytest.raises(FileNotFoundError), draft_of(file, replaces=replaces):
            pass  # nothing was written
        with pytest.raises(TypeError):
            write_json(file, {"fine": 1, "no JSON": object()})
        assert [path.read_text() for path in tmp_path.iterdir()] == ([] if before is None else [before])


def test_what_came_to_be_there_meanwhile_stays(tmp_path: Path) -> None:
    file, folder = tmp_path / "new.json", tmp_path / "new"
    with pytest.raises(FileExistsError):
        write_late(file, is_folder=False)
    with pytest.raises(OSError, match="not empty"):
        write_late(folder, is_folder=True)
    assert (file.read_text(), (folder / "1.json").read_text()) == ("theirs", "theirs")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    folder = tmp_path / "trajectories"
    with draft_of(folder) as draft:
        draft.mkdir()
        (draft / "1.json").write_text("{}")
        assert not folder.exists()
    assert [path.name for path in folder.iterdir()] == ["1.json"]


@pytest.mark.parametrize(
    "fault",
    [
        PermissionError(errno.EACCES, "Denied"),
        OSError(errno.ENOSPC, "No space left"),
        FileExistsError(errno.EEXIST, "Exists", "another"),
        OSError(errno.ENOTEMPTY, "Not empty", "draft", None, "another"),
    ],
)
@pytest.mark.parametrize("others", [False, True])
def test_a_new_folder_is_whole_and_no_fault_of_its_content_is_hidden(
    tmp_path: Path, fault: OSError, others: bool
) -> None:
    folder = tmp_path / "models" / "tiny"
    with pytest.raises(OSError, match=str(fault.strerror)):
        fail_within(folder, fault, others=others)
    assert sorted(tmp_path.rglob("*.json")) == ([folder / "whole.json"] if others else [])


def test_a_new_folder_of_another_process_stays(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "tiny"
    with new_folder(folder) as draft:
        (draft / "mine.json").touch()
        write_whole(folder)
    assert [*folder.parent.iterdir()] == [folder]
    assert [*folder.iterdir()] == [folder / "whole.json"]


def fail_within(folder: Path, fault: OSError, *, others: bool) -> None:
    """Fail while the content of a new folder is written, which another process has made by then or not."""
    with new_folder(folder) as draft:
        (draft / "half.json").touch()
        if others:
            write_whole(folder)
        raise fault


def write_whole(folder: Path) -> None:
    """Make a folder as another process does meanwhile."""
    folder.mkdir()
    (folder / "whole.json").touch()


def leave_draft(name: str, path: Path) -> Path:
    """Make what a killed process leaves: a folder of one file or folder, or of none yet."""
    draft = path.with_name(name)
    draft.mkdir()
    (draft / path.name).mkdir()
    (draft / path.name / "half.json").touch()
    return draft


def test_what_killed_processes_have_left_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "model"
    left = [leave_draft(name, path) for name in (".model-abcd_123", ".model-12345678")]
    begun = tmp_path / ".model-00000000"
    begun.mkdir()
    others = [leave_draft(name, path) for name in (".model-notes", ".model-abcd_1234", ".models-abcd_123")]
    others.append(leave_draft(".model-archives", path))
    (others[-1] / "notes.txt").touch()
    others.append(leave_draft(".tokens-abcd_123", tmp_path / "tokens"))
    with draft_of(path) as written_now, new_folder(path):
        assert written_now.parent.is_dir(), "a process that runs has not left its draft"
        assert not any(draft.exists() for draft in (*left, begun))
        written_now.mkdir()
    assert sorted(tmp_path.iterdir()) == sorted([*others, path])


def test_many_writers_at_once_delete_no_draft_of_another(tmp_path: Path) -> None:
    file = tmp_path / "scores.json"

    def write(number: int) -> None:
        for _ in range(20):
            write_json(file, number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert read_json(file) in range(8)
    assert [*tmp_path.iterdir()] == [file]


def test_a_draft_of_another_process_stays_as_long_as_that_runs(tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    with subprocess.Popen(
        [sys.executable, "-c", HALF, str(file), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        write_json(file, [1])
        assert len([path for path in tmp_path.iterdir() if is_draft(path, file)]) == 1
        other.kill()
        other.wait(60)
    write_json(file, [2])
    assert [*tmp_path.iterdir()] == [file]


HALF = """
import os, resource, signal, sys
from pathlib import Path
from openenv.core.documents import draft_of, write_json
file = Path(sys.argv[1])
if sys.argv[2] == "full disk":
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    write_json(file, ["x" * 100] * 1000)
with draft_of(file) as draft:
    draft.write_text("half of")
    if sys.argv[2] == "wait":
        print(flush=True)
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("fault", "status"), [("full disk", 1), ("kill", -signal.SIGKILL)])
def test_a_full_disk_or_a_kill_in_the_middle_leaves_the_file_as_it_was(tmp_path: Path, fault: str, status: int) -> None:
    file = tmp_path / "scores.json"
    write_json(file, [1])
    ended = subprocess.run([sys.executable, "-c", HALF, str(file), fault], capture_output=True, text=True, timeout=60)
    assert ended.returncode == status, ended.stderr
    assert ("File too large" in ended.stderr) is (fault == "full disk")
    assert read_json(file) == [1]
    left = [path for path in tmp_path.iterdir() if path != file]
    assert [is_draft(path, file) for path in left] == ([True] if fault == "kill" else [])
    write_json(file, [2])
    assert read_json(file) == [2]
    assert [*tmp_path.iterdir()] == [file], "the next writer deletes what is left"
