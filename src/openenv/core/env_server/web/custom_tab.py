"""The page that an environment's ``gradio_builder`` makes, beside the one at ``/web/``. Nothing else imports Gradio."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from openenv._extras import install_command
from openenv.core.env_server.web.interface import WebInterfaceManager
from openenv.core.exceptions import ConfigurationError

PATH = "/web/custom"

GradioBuilder = Callable[..., Any]
"""Builder of the page: ``builder(web_manager, action_fields, metadata, is_chat_env, title, quick_start_md)`` returns
``gradio.Blocks``."""

_TOKENS = "tokens"
_LONG_TEXT = 100
_LONG_TEXTS = ("message", "code")
# What a field's description has under the name of JSON Schema's keyword.
_KEYWORDS = {
    "default_value": "default",
    "choices": "enum",
    "min_value": "minimum",
    "max_value": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}


@dataclass(frozen=True)
class CustomTab:
    """What an application says of the page.

    Attributes:
        builder: The builder.
        name: Name of the page, for the link that leads there.
        title: Title of the page; by default the environment's name.
        is_first: Whether the server's address leads to it, rather than to the page at ``/web/``.
    """

    builder: GradioBuilder
    name: str
    title: str | None
    is_first: bool


def mount_custom_tab(
    app: FastAPI, tab: CustomTab, manager: WebInterfaceManager, quick_start: str, *, debug: bool = False
) -> None:
    """Mount what a builder makes of an environment, below ``PATH``.

    Args:
        app: The application.
        tab: The builder, and the names.
        manager: Plays the session of the page, which all visitors share.
        quick_start: First lines of Python for the environment, in Markdown.
        debug: Whether the page shows the messages of errors, with all that they hold.

    Raises:
        ConfigurationError: Gradio is not installed, or can't be imported.
        TypeError: The builder returns something other than ``gradio.Blocks``.
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # before the import, which reports to its makers
    try:
        gradio = import_module("gradio")  # no type checker may find it
    except ImportError as error:
        problem = f": {install_command('gradio')}"
        if error.name != "gradio" or not isinstance(error, ModuleNotFoundError):
            problem = f", which can't be imported here: {error}"
        raise ConfigurationError(f"The page of a gradio_builder needs Gradio{problem}.") from error
    fields = action_fields(manager.action_cls)
    is_chat = any(field["name"] == _TOKENS for field in fields)
    title = tab.title or manager.metadata.name
    blocks = tab.builder(manager, fields, manager.metadata, is_chat, title, quick_start)
    if not isinstance(blocks, gradio.Blocks):
        raise TypeError(f"Expected gradio_builder to return gradio.Blocks, got {type(blocks).__name__}.")
    blocks.title = title
    gradio.mount_gradio_app(app, blocks, path=PATH, show_error=debug)


def action_fields(action_class: type[BaseModel]) -> list[dict[str, Any]]:
    """Describe the fields of an action for a form, as the public package does.

    Args:
        action_class: The class; a union of classes has no fields of its own.

    Example:
        >>> [(field["name"], field["type"]) for field in action_fields(CatchAction)]  # doctest: +SKIP
        [('action_id', 'select')]
    """
    schema = action_class.model_json_schema()
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    return [
        _field(name, described, is_required=name in required)
        for name, described in properties.items()
        if name != "metadata"
    ]


def _field(name: str, described: Mapping[str, Any], *, is_required: bool) -> dict[str, Any]:
    words = name.replace("_", " ")
    text = described.get("description", "")
    return {
        "name": name,
        "type": _kind(name, described),
        "required": is_required,
        "description": text,
        **{key: described.get(keyword) for key, keyword in _KEYWORDS.items()},
        "placeholder": f"Enter {words}",
        "help_text": text or words.capitalize(),
    }


def _kind(name: str, described: Mapping[str, Any]) -> str:
    if _TOKENS in name.lower():
        return "tensor"
    if "enum" in described:
        return "select"
    match described.get("type"):
        case "boolean":
            return "checkbox"
        case "integer" | "number":
            return "number"
        case "string" if described.get("maxLength", 0) > _LONG_TEXT or any(
            part in name.lower() for part in _LONG_TEXTS
        ):
            return "textarea"
    return "text"
