"""YAML, JSON and TOML of any origin, read within bounds of length, depth and size after aliases; files written whole.

A few hundred bytes of YAML can stand for billions of values, since an alias repeats what its anchor holds: to validate
or print the result then takes minutes and gigabytes. JSON and TOML repeat nothing; their length and depth bound them.
"""

import errno
import fcntl
import json
import os
import re
import shutil
import stat
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import yaml

from openenv.core.exceptions import ConfigurationError

MAX_YAML_BYTES = 256 * 1024
"""PyYAML reads some 100 KiB in a second; manifests and recipes have a few."""
MAX_JSON_BYTES = 256 * 1024 * 1024
MAX_TEXT_BYTES = 1_000_000
"""A program, a Dockerfile or a README has some thousand."""
MAX_TOML_BYTES = 8 * 1024 * 1024
"""A lock of a large environment has a few million."""

MAX_LINE_BYTES = MAX_JSON_BYTES
"""A line of JSON has an episode, with its pictures."""

# The time and the memory that tomllib takes for a key grow with the square of its parts.
_MAX_KEY_PARTS = 16
_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![\w.\\-]){_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART}){{{_MAX_KEY_PARTS}}}")
_MAX_JSON_VALUES = 10_000_000
# A project's own file; a lock, which is parsed by itself, is larger.
_MAX_PROJECT_BYTES = 1024 * 1024
_MAX_YAML_DEPTH = 64
# Python writes no whole number of more than 4300 digits, and to read one in base 60 takes quadratic time.
_MAX_DIGITS = 3500
_LONG_NUMBER = re.compile(rf"0[xob][\da-fA-F_]{{{_MAX_DIGITS}}}")
# Of the folders that tempfile makes.
_DRAFT_SUFFIX = re.compile(r"[a-z0-9_]{8}")
# In characters and nodes, aliases counted as often as they stand: four times what a file without any can hold.
_MAX_YAML_SIZE = 4 * MAX_YAML_BYTES


class DocumentError(ValueError):
    """A text that is not valid YAML, JSON or TOML, or that exceeds a bound; the message says where and which."""


def parse_yaml(text: str, *, strict: bool = False) -> Any:
    """Return the value of one YAML document.

    Args:
        text: The document, of at most ``MAX_YAML_BYTES`` in UTF-8.
        strict: Whether each key has to be a text that stands once in its mapping; otherwise its last value counts.

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
        return yaml.load(text, _StrictLoader if strict else _BoundedLoader)  # noqa: S506  # it is a SafeLoader
    # The others: a date without a day of that number, !!bool of another word, !!timestamp of none, a number that no
    # float holds.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise DocumentError(str(error)) from error


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Args:
        text: The text, of at most ``MAX_JSON_BYTES``.

    Returns:
        The value.

    Raises:
        DocumentError: It is not valid JSON, is too long, has too many values, or is nested too deeply.

    Example:
        >>> parse_json('{"steps": 10}')
        {'steps': 10}
    """
    check_json_size(text)
    return _parsed(json.loads, text)


def read_arguments(written: Any) -> Any:
    """Return the arguments of a model's tool call; what is no JSON is returned as it came.

    Args:
        written: The arguments as JSON, which a model may have got wrong; or their value, which some servers send.

    Returns:
        The value, by rights an object; an empty one where there are no arguments. Half of a surrogate pair, which no
        environment can be sent, is a question mark.

    Example:
        >>> read_arguments('{"word": "mouse"}'), read_arguments(""), read_arguments('{"word": ')
        ({'word': 'mouse'}, {}, '{"word": ')
    """
    value = {} if written is None else written
    if isinstance(written, str):
        try:
            value = parse_json(written) if written.strip() else {}
        except DocumentError:
            value = written
    return without_half_pairs(value)


def without_half_pairs(value: Any) -> Any:
    r"""Return a JSON value with a question mark for each half of a surrogate pair, which has no form in UTF-8.

    A model that is cut off within an emoji writes one.

    Example:
        >>> without_half_pairs(["\ud83d", "\u00e9"])
        ['?', 'é']
    """
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def check_json_size(text: str | bytes) -> None:
    """Check that a JSON text is not too large to be read.

    Raises:
        DocumentError: It is too long, or has too many values: an empty list takes 3 bytes there, and 64 in memory.
    """
    _check_length(len(text), MAX_JSON_BYTES)
    if len(text) <= _MAX_JSON_VALUES:
        return
    between = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    check_value_count(sum(map(text.count, between)))  # type: ignore[arg-type]


def check_value_count(count: int) -> None:
    """Check that a document has not too many values to be read, whatever they take on disk.

    Raises:
        DocumentError: It has too many.
    """
    if count > _MAX_JSON_VALUES:
        raise DocumentError(f"expected at most {_MAX_JSON_VALUES} values, but it has more")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Args:
        text: The text, of at most ``MAX_TOML_BYTES``.

    Returns:
        The tables.

    Raises:
        DocumentError: It is not valid TOML, is too long, is nested too deeply, or has keys of too many parts.

    Example:
        >>> parse_toml("[project]")
        {'project': {}}
    """
    _check_length(len(text), MAX_TOML_BYTES)
    if found := _DEEP_KEY.search(text):
        raise DocumentError(f"expected keys of at most {_MAX_KEY_PARTS} parts, got one that begins {found[0]!r:.60}")
    if found := _LONG_NUMBER.search(text):
        raise DocumentError(f"expected numbers of at most {_MAX_DIGITS} digits, got one that begins {found[0]:.60}")
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
    tables: dict[str, Any] = _read(file, _MAX_PROJECT_BYTES, "TOML", parse_toml)
    return tables


def read_text(file: Path, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the text of a file in UTF-8.

    Args:
        file: The file.
        max_bytes: Its most bytes.

    Raises:
        ConfigurationError: It can't be read, is longer, or is no text; the message names the file.
    """
    text: str = _read(file, max_bytes, "text", str)
    return text


def read_lines(file: Path) -> Iterator[bytes]:
    """Iterate over the lines of a file, each of at most ``MAX_LINE_BYTES``.

    Raises:
        ConfigurationError: It can't be read, or a line is longer; the message names the file.
    """
    with open_regular(file) as stream:
        mark = BOM_UTF8  # with which programs of Windows begin a file
        while line := stream.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise ConfigurationError(f"{file}: expected lines of at most {MAX_LINE_BYTES} bytes, got a longer one.")
            yield line.removeprefix(mark)
            mark = b""


def open_regular(file: Path) -> BinaryIO:
    """Open a file to read. A pipe or a device is refused: reading it might not end.

    Raises:
        ConfigurationError: It can't be read, or is no regular file; the message names it.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer.
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise ConfigurationError(f"There is no file {file}.") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise ConfigurationError(f"{file}: can't be read ({getattr(error, 'strerror', error)}).") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigurationError(f"{file}: can't be read, since it is no regular file; copy its content into one.")
    return os.fdopen(descriptor, "rb")


@contextmanager
def draft_of(path: Path, *, replaces: bool = True) -> Iterator[Path]:
    """Yield a path to write a file or folder to, which is moved to its own path at the end, whole or not at all.

    What processes that were killed have left of the same path is deleted first.

    Args:
        path: The path of the file or folder.
        replaces: Whether it replaces a file that is there; otherwise a file that is there by then is an error.

    Raises:
        OSError: It can't be written or moved. What was at the path is as it was.
    """
    _delete_left(path)
    with ExitStack() as stack:
        folder = _draft_folder(path, stack)
        draft = folder / path.name
        yield draft
        if replaces or draft.is_dir():  # no folder replaces a file, or a folder with something in it
            draft.replace(path)
        else:
            os.link(draft, path)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder for the content of a new one, which is whole or not there.

    Args:
        path: The path of the new folder; its parents are made. Where another process has made it meanwhile, that folder
            stays.

    Raises:
        OSError: It can't be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with draft_of(path) as draft:
            draft.mkdir()
            yield draft
    except OSError as error:
        moved_to = error.filename2  # of the move at the end alone
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY) or moved_to is None or Path(moved_to) != path:
            raise


def first_new_folder(paths: Iterable[Path]) -> Path:
    """Make the first of some folders that is not there yet, with its parents; no other process makes the same one.

    Args:
        paths: Their paths, as with numbers.

    Raises:
        FileExistsError: All of them are there.
    """
    for path in paths:
        with suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise FileExistsError(errno.EEXIST, "all of the folders are there")


def is_draft(found: Path, path: Path) -> bool:
    """Return whether a file or folder is a draft of a path, as a kill leaves it.

    Args:
        found: The file or folder.
        path: The path.
    """
    suffix = found.name.removeprefix(_draft_prefix(path))
    if suffix == found.name or not _DRAFT_SUFFIX.fullmatch(suffix) or not found.is_dir():
        return False
    return all(each.name == path.name for each in found.iterdir())


def write_json(file: Path, value: Any) -> None:
    """Write a value as a file of JSON, whole or not at all.

    Raises:
        OSError: It can't be written.
    """
    with draft_of(file) as draft:
        draft.write_text(json.dumps(value, indent=1), "utf-8")


@contextmanager
def folder_lock(folder: Path, *, waits: bool = True) -> Iterator[bool]:
    """Lock a folder against the other processes and threads that lock it, until the block or the process ends.

    Args:
        folder: The folder.
        waits: Whether to wait while another process or thread has the lock.

    Yields:
        Whether it is locked; ``False`` where the folder can't be read, or its file system has no locks.
    """
    with ExitStack() as stack:
        is_held = False
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            is_held = True
        yield is_held


def _draft_prefix(path: Path) -> str:
    return f".{path.name}-"


def _draft_folder(path: Path, stack: ExitStack) -> Path:
    """Make the folder of a draft, locked until the stack or the process ends."""
    while True:
        made = TemporaryDirectory(prefix=_draft_prefix(path), dir=path.absolute().parent)
        folder = Path(stack.enter_context(made))
        stack.enter_context(folder_lock(folder))
        if folder.is_dir():  # another writer deletes it as one that is left, if it sees it before it is locked
            return folder


def _delete_left(path: Path) -> None:
    """Delete the drafts of a path whose processes have ended."""
    with suppress(OSError):  # their folder can't be read, or another writer's draft has come to its end meanwhile
        for found in path.absolute().parent.iterdir():
            if is_draft(found, path):
                with folder_lock(found, waits=False) as is_held:
                    if is_held:
                        shutil.rmtree(found, ignore_errors=True)


def _parsed(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        return parse(text)
    except RecursionError as error:
        raise DocumentError("it is nested too deeply") from error
    except ValueError as error:
        raise DocumentError(str(error)) from error


def _read(file: Path, max_bytes: int, form: str, parse: Callable[[str], Any]) -> Any:
    with open_regular(file) as stream:
        content = stream.read(max_bytes + 1)
    try:
        _check_length(len(content), max_bytes)
        return parse(content.removeprefix(BOM_UTF8).decode("utf-8"))
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
            if node.tag == "tag:yaml.org,2002:int" and len(node.value) > _MAX_DIGITS:
                raise _fault(f"expected numbers of at most {_MAX_DIGITS} digits", node.start_mark)
            return 1 + len(node.value)
        parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
        size = 1 + sum(self._sizes[id(part)] for part in parts)
        if size > _MAX_YAML_SIZE:
            raise _fault("expected fewer values, each alias counted as what it stands for", node.start_mark)
        return size


class _StrictLoader(_BoundedLoader):
    """Loader that refuses keys that are no texts, or stand twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping's keys and values."""
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.tag != "tag:yaml.org,2002:str" or key.value in seen:
                raise _fault("expected keys that are texts and stand once", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _fault(problem: str, mark: yaml.Mark) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(problem=problem, problem_mark=mark)
