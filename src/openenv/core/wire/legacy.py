"""Legacy wire without I/O: frames to requests, answers to frames.

Public clients and servers speak the legacy wire. A text frame is one JSON object, ``{"type": ..., "data": ...}``, and
requests are answered in order. This module uses no socket, session or event loop, so that all transports can share it.
"""

from typing import Any, Final

from pydantic import BaseModel

from openenv.core.exceptions import ErrorCode, InvalidRequestError, RequestError
from openenv.core.wire.bounded_json import json_type, read_json
from openenv.core.wire.errors import LONGEST_QUOTE, error_data, error_json, validated
from openenv.core.wire.messages import (
    MessageType,
    Request,
    WSCloseMessage,
    WSMCPMessage,
    WSResetMessage,
    WSStateMessage,
    WSStepMessage,
)

_STEP: Final = "step"
_MESSAGES: dict[str, type[BaseModel]] = {
    MessageType.RESET: WSResetMessage,
    MessageType.STEP: WSStepMessage,
    MessageType.STATE: WSStateMessage,
    MessageType.CLOSE: WSCloseMessage,
    MessageType.MCP: WSMCPMessage,
}


def decode(frame: str | None, max_bytes: int | None = None) -> Request:
    """Decode one frame of a client on the legacy wire.

    Args:
        frame: The frame's text; ``None`` for a binary frame.
        max_bytes: The longest frame to accept, in bytes of UTF-8; ``None`` for no limit.

    Returns:
        The request.

    Raises:
        InvalidRequestError: The frame is no JSON, no object, of no known type, or has missing or unknown fields.
        MessageTooLargeError: The frame is too long.
    """
    document = read_json(frame, max_bytes)
    if not isinstance(document, dict):
        raise InvalidRequestError(f'Expected a JSON object such as {{"type": "reset"}}, got {json_type(document)}.')
    if document.get("type") == "step" and len(document) == 2:
        data = document.get("data")
        if type(data) is dict:  # any data is valid here: skip the model, for the speed of steps
            return Request(_STEP, data)
    return read_message(document)


def read_message(document: dict[str, Any]) -> Request:
    """Return the request in a message of the legacy wire, or of v1 without its id and session.

    Args:
        document: The message.

    Raises:
        InvalidRequestError: The message is of no known type, or has missing or unknown fields.
    """
    kind, data = document.get("type", ""), document.get("data")
    message_class = _MESSAGES.get(kind) if isinstance(kind, str) else None
    if message_class is None:
        raise InvalidRequestError(f"Unknown message type: {kind!s:.{LONGEST_QUOTE}}", code=ErrorCode.UNKNOWN_TYPE)
    validated(message_class, document)
    return Request(kind, data or {})


def encode(kind: str, data: str) -> str:
    """Encode an answer on the legacy wire.

    Args:
        kind: The answer's ``type``.
        data: The answer's ``data``, as JSON.
    """
    return f'{{"type":"{kind}","data":{data}}}'


def encode_error(error: RequestError) -> str:
    """Encode the answer to a failed request on the legacy wire."""
    return error_json({"type": MessageType.ERROR, "data": error_data(error)})
