"""What an environment's ``snapshot`` returned, written so that it can be kept, sent and given to ``restore``."""

import base64
import json
from dataclasses import dataclass
from typing import Any

from openenv.core.exceptions import EnvironmentFailedError

_JSON, _BASE64 = "json", "base64"
_IS_JSON, _IS_BYTES = b"j", b"b"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot, written down.

    Attributes:
        written: Bytes as they are, or any other value as JSON.
    """

    written: bytes | str

    @classmethod
    def of(cls, value: Any) -> "Snapshot":
        """Write what ``snapshot`` returned.

        Raises:
            EnvironmentFailedError: It is neither bytes nor something that JSON can hold.

        Example:
            >>> Snapshot.of({"total": 3, "history": (1, 2)}).value()
            {'total': 3, 'history': [1, 2]}
        """
        if isinstance(value, bytes | bytearray | memoryview):
            return cls(bytes(value))
        try:
            return cls(json.dumps(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise EnvironmentFailedError(
                f"Expected snapshot() to return bytes or what JSON can hold, got {type(value).__name__}: {error}"
            ) from error

    def value(self) -> Any:
        """Return what ``restore`` is given: bytes, or what JSON makes of the value."""
        return json.loads(self.written) if isinstance(self.written, str) else self.written

    def to_bytes(self) -> bytes:
        """Write it as bytes of which the first tells whether the rest is JSON; for a journal."""
        return _IS_JSON + self.written.encode() if isinstance(self.written, str) else _IS_BYTES + self.written

    @classmethod
    def from_bytes(cls, written: bytes) -> "Snapshot":
        """Read what ``to_bytes`` wrote."""
        return cls(written[1:].decode() if written[:1] == _IS_JSON else written[1:])

    def to_json(self) -> str:
        """Write it as JSON, bytes or not, for another process."""
        if isinstance(self.written, str):
            return json.dumps({_JSON: self.written})
        return json.dumps({_BASE64: base64.b64encode(self.written).decode()})

    @classmethod
    def from_json(cls, text: str) -> "Snapshot":
        """Read what ``to_json`` wrote.

        Raises:
            ValueError: It is something else; or ``TypeError`` or ``KeyError``.
        """
        document = json.loads(text)
        return cls(document[_JSON] if _JSON in document else base64.b64decode(document[_BASE64]))
