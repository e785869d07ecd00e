"""YAML, JSON and TOML of strangers: valid text is read, hostile text is refused at once and within little memory."""

import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.documents import MAX_YAML_BYTES, DocumentError, parse_json, parse_toml, parse_yaml, read_yaml
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


@given(st.text("&*ab[]{}:,- \n!?|>'\"<", max_size=60))
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
