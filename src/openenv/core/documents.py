"""YAML, JSON and TOML of any origin, read within bounds: of length, of depth, of size after aliases.

A few hundred bytes of YAML can stand for billions of values, since an alias repeats what its anchor holds: to validate
or print the result then takes minutes and gigabytes. JSON and TOML repeat nothing; their length and depth bound them.
"""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from openenv.core.exceptions import ConfigurationError

MAX_YAML_BYTES = 256 * 1024
"""PyYAML reads some 100 KiB in a second; manifests and recipes have a few."""
MAX_JSON_BYTES = 256 * 1024 * 1024
MAX_TOML_BYTES = 8 * 1024 * 1024
"""A lock of a large environment has a few million."""

_MAX_YAML_DEPTH = 64
# In characters and nodes, aliases counted as often as they stand: four times what a file without any can hold.
_MAX_YAML_SIZE = 4 * MAX_YAML_BYTES


class DocumentError(ValueError):
    """A text that is not valid YAML, JSON or TOML, or that exceeds a bound; the message says where and which."""


def parse_yaml(text: str) -> Any:
    """Return the value of one YAML document.

    Args:
        text: The document, of at most ``MAX_YAML_BYTES`` in UTF-8.

    Returns:
        Mappings, lists, text, numbers, dates and ``None``, as YAML's safe types are.

    Raises:
        DocumentError: It is not valid YAML of safe types, is too long, is nested too deeply, or its aliases stand for
            too much.

    Example:
        >>> parse_yaml("steps: 10")
        {'steps': 10}
    """
    _check_length(len(text.encode("utf-8", "surrogatepass")), MAX_YAML_BYTES)
    try:
        return yaml.load(text, _BoundedLoader)  # noqa: S506  # it is a SafeLoader
    # ValueError: a date without a day of that number, a number of more digits than Python converts.
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError(str(error)) from error


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Args:
        text: The text, of at most ``MAX_JSON_BYTES``.

    Returns:
        The value.

    Raises:
        DocumentError: It is not valid JSON, is too long, or is nested too deeply.

    Example:
        >>> parse_json('{"steps": 10}')
        {'steps': 10}
    """
    _check_length(len(text), MAX_JSON_BYTES)
    return _parsed(json.loads, text)


def read_arguments(written: Any) -> Any:
    """Return the arguments of a model's tool call; what is no JSON is returned as it came.

    Args:
        written: The arguments as JSON, which a model may have got wrong; or their value, which some servers send.

    Returns:
        The value, by rights an object; an empty one where there are no arguments.

    Example:
        >>> read_arguments('{"word": "mouse"}'), read_arguments(""), read_arguments('{"word": ')
        ({'word': 'mouse'}, {}, '{"word": ')
    """
    if not isinstance(written, str):
        return {} if written is None else written
    try:
        return parse_json(written) if written.strip() else {}
    except DocumentError:
        return written


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Args:
        text: The text, of at most ``MAX_TOML_BYTES``.

    Returns:
        The tables.

    Raises:
        DocumentError: It is not valid TOML, is too long, or is nested too deeply.

    Example:
        >>> parse_toml("[project]")
        {'project': {}}
    """
    _check_length(len(text), MAX_TOML_BYTES)
    tables: dict[str, Any] = _parsed(tomllib.loads, text)
    return tables


def read_yaml(file: Path) -> Any:
    """Return the value of a YAML file; see ``parse_yaml``.

    Raises:
        ConfigurationError: It can't be read, or is not as ``parse_yaml`` wants it; the message names the file.
    """
    return _read(file, MAX_YAML_BYTES, "YAML", parse_yaml)


def read_json(file: Path) -> Any:
    """Return the value of a JSON file; see ``parse_json``.

    Raises:
        ConfigurationError: It can't be read, or is not as ``parse_json`` wants it; the message names the file.
    """
    return _read(file, MAX_JSON_BYTES, "JSON", parse_json)


def read_toml(file: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; see ``parse_toml``.

    Raises:
        ConfigurationError: It can't be read, or is not as ``parse_toml`` wants it; the message names the file.
    """
    tables: dict[str, Any] = _read(file, MAX_TOML_BYTES, "TOML", parse_toml)
    return tables


def _parsed(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        return parse(text)
    except RecursionError as error:
        raise DocumentError("it is nested too deeply") from error
    except ValueError as error:
        raise DocumentError(str(error)) from error


def _read(file: Path, max_bytes: int, form: str, parse: Callable[[str], Any]) -> Any:
    try:
        with file.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except FileNotFoundError as error:
        raise ConfigurationError(f"There is no file {file}.") from error
    except OSError as error:
        raise ConfigurationError(f"{file}: can't be read ({error.strerror}).") from error
    try:
        _check_length(len(content), max_bytes)
        return parse(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: is not UTF-8 text; save it as UTF-8.") from error
    except DocumentError as error:
        raise ConfigurationError(f"{file}: is not valid {form}; mend this: {error}") from error


def _check_length(length: int, max_bytes: int) -> None:
    if length > max_bytes:
        raise DocumentError(f"expected at most {max_bytes} bytes, but it is longer")


class _BoundedLoader(yaml.SafeLoader):
    """PyYAML's safe loader, which counts what it composes before it builds any value of it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        # By the node's identity; the nodes live as long as the document is composed.
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _MAX_YAML_DEPTH:
            raise _fault(f"expected values at most {_MAX_YAML_DEPTH} deep", self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return None
        if not is_alias:
            self._sizes[id(node)] = self._size_of(node)
        elif id(node) not in self._sizes:
            raise _fault("expected no alias inside the value that it stands for", node.start_mark)
        return node

    def _size_of(self, node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1 + len(node.value)
        parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
        size = 1 + sum(self._sizes[id(part)] for part in parts)
        if size > _MAX_YAML_SIZE:
            raise _fault("expected fewer values, each alias counted as what it stands for", node.start_mark)
        return size


def _fault(problem: str, mark: yaml.Mark) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(problem=problem, problem_mark=mark)
