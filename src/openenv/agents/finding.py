"""Participants by a text, as in settings and ids."""

from importlib import import_module
from typing import Any

from openenv.agents.models import ModelPlayer
from openenv.agents.participant import Participant
from openenv.core.exceptions import ConfigurationError
from openenv.core.llm_client import model_client

__all__ = ["find_named", "find_participant"]


def find_participant(text: str) -> Participant:
    """Find a participant.

    Args:
        text: A model and its address, ``NAME@URL``, which `ModelPlayer` plays; or ``module:name`` of a participant.

    Raises:
        ConfigurationError: There is no such participant.

    Example::

        find_participant("Qwen/Qwen3-8B@http://localhost:8000")
        find_participant("my_package.opponents:careful")
    """
    if "@" in text:
        return ModelPlayer(model_client(text))
    found = find_named(text, "NAME@URL of a model, or module:name")
    if not isinstance(found, Participant):
        raise ConfigurationError(
            f"Expected {text} to be a participant, with a method reply(messages), got {type(found).__name__}."
        )
    return found


def find_named(text: str, expected: str) -> Any:
    """Import what ``module:name`` names.

    Args:
        text: The name.
        expected: What the name may be, for the error.

    Raises:
        ConfigurationError: There is no such module, or it has no such name.
    """
    module, _, name = text.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"Expected {expected}, got {text!r}: {error}.") from error
