"""A client for any environment, in plain dictionaries."""

from typing import Any

from openenv.core.client.client import FormattedClient
from openenv.core.client.formats import GenericFormat, WireFormat


class GenericAction(dict[str, Any]):
    """An action as a dictionary, written with keywords.

    Example:
        >>> GenericAction(word="crane")
        GenericAction(word='crane')
    """

    def __repr__(self) -> str:
        """Show it as it was written."""
        fields = ", ".join(f"{name}={value!r}" for name, value in self.items())
        return f"GenericAction({fields})"


_FORMAT = GenericFormat()


class GenericEnvClient(FormattedClient[Any, dict[str, Any], dict[str, Any]]):
    """A client that needs no classes: observations and states are dictionaries.

    An action may be a mapping, a pydantic model, or any object with attributes.
    """

    @property
    def _wire_format(self) -> WireFormat[Any, dict[str, Any], dict[str, Any]]:
        return _FORMAT
