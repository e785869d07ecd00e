"""Pages with source code share navigation trees; Sphinx makes one for each page, a sixth of the time of a build."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sphinx.application import Sphinx


class SharedTrees:
    """Navigation trees of pages with source code, one for each depth of folders, where all links are equal."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], str] = {}

    def share(self, _app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
        """Give a page the tree of the first one at its depth; none of them is an entry of the tree."""
        if page.startswith("_modules/"):
            context["toctree"] = partial(self._tree, page.count("/"), context["toctree"])

    def _tree(self, depth: int, make: Callable[..., str], **options: Any) -> str:
        key = depth, repr(sorted(options.items()))
        if key not in self._made:
            self._made[key] = make(**options)
        return self._made[key]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the handler, to run before the theme's."""
    app.connect("html-page-context", SharedTrees().share, priority=400)
    return {"parallel_read_safe": True}
