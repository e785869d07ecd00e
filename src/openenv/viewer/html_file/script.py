"""The page's modules as one script, which needs no other file."""

import re
from collections.abc import Iterable
from functools import cache, partial
from posixpath import dirname, join, normpath

from openenv.core.env_server.web.page import static_text

_MAIN = "app.js"
_VIEWS = ("compare.js", "results.js", "run.js", "traces/view.js")
"""Views that a file may show; the others need a session."""

_NAMES = r"\{([^}]*)\}"
_IMPORT = re.compile(rf'^import\s*(?:(\w+)|{_NAMES})\s*from\s*"([^"]+)";', re.MULTILINE)
_IMPORT_LATER = re.compile(r'\bimport\("([^"]+)"\)')
_EXPORT_FROM = re.compile(rf'^export\s*{_NAMES}\s*from\s*"([^"]+)";', re.MULTILINE)
_EXPORT_NAMES = re.compile(rf"\bexport\s*{_NAMES};")
_EXPORT_DEFAULT = re.compile(r"\bexport default ")
_EXPORT = re.compile(r"^export ((?:async function|function|class|const) (\w+))", re.MULTILINE)


@cache
def page_script() -> str:
    """Return the page's modules as one script; each is a function that returns what it exports.

    Example:
        >>> page_script().startswith("const modules = {};")
        True
    """
    script = _Script()
    for name in (*_VIEWS, _MAIN):
        script.add(name)
    # The text ends the element that it is in otherwise.
    return script.text().replace("</script", "<\\/script")


class _Script:
    """Modules in an order in which each comes after those that it imports."""

    def __init__(self) -> None:
        self._added: dict[str, str | None] = {}

    def add(self, name: str) -> None:
        """Add a module after those that it imports."""
        if name in self._added:
            assert self._added[name] is not None, f"{name} imports a module that imports it"
            return
        self._added[name] = None
        source = static_text(name)
        for found in (*_IMPORT.finditer(source), *_EXPORT_FROM.finditer(source)):
            self.add(_path(name, found[found.lastindex or 0]))
        del self._added[name]
        self._added[name] = _function(name, source)

    def text(self) -> str:
        """Return all of them."""
        return "\n".join(["const modules = {};", *filter(None, self._added.values())])


def _function(name: str, source: str) -> str:
    """Return a module as a statement that makes its exports."""
    exported = [f"{found[2]}" for found in _EXPORT.finditer(source)]
    for found in _EXPORT_NAMES.finditer(source):
        exported += [f"{new}: {own}" for own, new in _pairs(found[1])]
    again = [f"...{_part(name, found[2], _pairs(found[1]))}" for found in _EXPORT_FROM.finditer(source)]
    body = _EXPORT_FROM.sub("", source)
    body = _IMPORT.sub(partial(_import, name), body)
    body = _IMPORT_LATER.sub(partial(_import_later, name), body)
    body = _EXPORT_NAMES.sub("", body)
    body = _EXPORT.sub(r"\1", body)
    if _EXPORT_DEFAULT.search(body):
        body = _EXPORT_DEFAULT.sub("const whole = ", body)
        exported.append("default: whole")
    return f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {", ".join([*exported, *again])} }};\n}})();'


def _import(name: str, found: re.Match[str]) -> str:
    whole, names, path = found.groups()
    bound = f"default: {whole}" if whole else ", ".join(f"{own}: {new}" for own, new in _pairs(names))
    return f"const {{ {bound} }} = {_module(name, path)};"


def _import_later(name: str, found: re.Match[str]) -> str:
    return f"Promise.resolve({_module(name, found[1])})"


def _part(name: str, path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Return an object with some exports of a module."""
    module = _module(name, path)
    return f"{{ {', '.join(f'{new}: {module}.{own}' for own, new in pairs)} }}"


def _module(name: str, path: str) -> str:
    return f'modules["{_path(name, path)}"]'


def _path(name: str, path: str) -> str:
    return normpath(join(dirname(name), path))


def _pairs(names: str) -> list[tuple[str, str]]:
    """Return names of a module, each with the name that it is bound to."""
    words = [each.split(" as ") for each in names.split(",")]
    return [(each[0].strip(), each[-1].strip()) for each in words if each[0].strip()]
