"""Signatures as a reader would write them: a default that a factory makes is shown as ``...``."""

from typing import Any

from sphinx.application import Sphinx


def show_factories(
    _app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, signature: str, result: str
) -> Any:
    """Replace what is no Python; Sphinx could not read the signature otherwise, and would print it raw."""
    return (signature.replace("<factory>", "..."), result) if signature else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the handler."""
    app.connect("autodoc-process-signature", show_factories)
    return {"parallel_read_safe": True}
