"""Forms of answers, as the pages of the wire have them."""

from collections.abc import Mapping
from types import UnionType
from typing import Any

from openenv.validation.conformance.server import AnswerForm


def message(answer: Any, kind: str) -> dict[str, Any] | None:
    """Return the data of a message of a type; ``None`` for any other answer."""
    if not isinstance(answer, Mapping) or answer.get("type") != kind:
        return None
    data = answer.get("data")
    return data if isinstance(data, dict) else None


def is_result(data: Any) -> bool:
    """Return whether a value is an observation with its reward and done flag."""
    return (
        isinstance(data, Mapping)
        and isinstance(data.get("observation"), Mapping)
        and type(data.get("done")) is bool
        and "reward" in data
        and isinstance(data["reward"], bool | int | float | None)
    )


def error_code(answer: Any) -> str | None:
    """Return the code of an error with a message; ``None`` for any other answer."""
    data = message(answer, "error")
    if data is None or not isinstance(data.get("message"), str) or not isinstance(data.get("code"), str):
        return None
    return str(data["code"])


def error(*codes: str) -> AnswerForm:
    """Return the form of an error with one of these codes; with any, where none is named."""
    text = f"an error with a message and the code {' or '.join(codes)}" if codes else "an error with message and code"
    return AnswerForm(text, lambda answer: (code := error_code(answer)) is not None and (not codes or code in codes))


OBSERVATION = AnswerForm(
    'an "observation" whose data has the object "observation", a number, a boolean or null as "reward", and a '
    'boolean "done"',
    lambda answer: is_result(message(answer, "observation")),
)
STATE = AnswerForm('a "state" whose data is an object', lambda answer: message(answer, "state") is not None)
OBSERVATION_OR_ERROR = AnswerForm(
    f"{OBSERVATION.text}; or an error with message and code, where the rules refuse the action",
    lambda answer: OBSERVATION.fits(answer) or error_code(answer) is not None,
)


def of_request(form: AnswerForm, request: Mapping[str, Any]) -> AnswerForm:
    """Return the form of an answer on v1: with the request's id and session."""
    names = [name for name in ("id", "session") if name in request]
    text = " and ".join(f"the {name} {request[name]!r}" for name in names)
    return AnswerForm(
        f"{form.text}, with {text}",
        lambda answer: form.fits(answer) and all(answer.get(name) == request[name] for name in names),
    )


_KINDS: Mapping[type, tuple[str, type | UnionType]] = {
    int: ("an integer", int),
    float: ("a number", int | float),
    str: ("a text", str),
}


def has_fields(kind: str, **types: type) -> AnswerForm:
    """Return the form of a message whose data has fields of these types."""
    text = ", ".join(f"{name} ({_KINDS[each][0]})" for name, each in types.items()) or "an object"
    return AnswerForm(
        f'a "{kind}" whose data has {text}',
        lambda answer: (
            (data := message(answer, kind)) is not None
            and all(isinstance(data.get(name), _KINDS[each][1]) for name, each in types.items())
        ),
    )
