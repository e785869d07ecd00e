"""Results of an environment in one form each: outcomes of a reset or a step, pictures of a render."""

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from openenv.core.exceptions import EnvironmentFailedError, FailureKind
from openenv.core.plain_values import single_value
from openenv.core.wire.arrays import Written, nested
from openenv.core.wire.types import BaseMessage, Observation, Scalar, dataclass_advice

_FORMS = (
    "an observation (a pydantic model), (observation, info), (observation, reward, done[, info]) "
    "or (observation, reward, terminated, truncated, info)"
)

# Names in the metadata of an outcome: scores of the reward's components by name, the weights of those that the reward
# is a weighted sum of, what scores rest on, and at the end of an episode the reward of each step; and what the
# participants of the episode have used so far, by their names.
REWARD_SIGNALS, REWARD_WEIGHTS = "reward_signals", "reward_weights"
REWARD_EVIDENCE, STEP_REWARDS = "reward_evidence", "step_rewards"
PARTICIPANTS = "participants"
# There, too: seconds of CPU that the environment's methods have used in the episode so far.
CPU_SECONDS = "cpu_s"

Number = TypeVar("Number", int, float)

TEXT, HTML, SVG, PNG = "text/plain", "text/html", "image/svg+xml", "image/png"
_WRITTEN = (TEXT, HTML, SVG)

# First bytes of image files.
_MAGIC = {b"\x89PNG\r\n\x1a\n": PNG, b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
# First characters of markup, compared in lower case.
_MARKUP = {"<svg": SVG, "<?xml": SVG, "<!doctype html": HTML, "<html": HTML, "<div": HTML, "<table": HTML, "<pre": HTML}
# PNG's colour types for pixels of one, three and four bytes: grey, RGB and RGBA.
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}


@dataclass(slots=True, frozen=True)
class WrittenJson:
    """Observation, state or picture that another process has already written as JSON.

    Attributes:
        json: The JSON, with its arrays beside it if there are any.
    """

    json: Written

    @property
    def text(self) -> str:
        """The JSON alone, with nested lists in place of arrays."""
        return nested(self.json)


@dataclass(slots=True, frozen=True)
class WrittenToolResult(WrittenJson):
    """``CallToolObservation`` that another process has already written as JSON."""


@dataclass(slots=True)
class Outcome:
    """Outcome of a reset or a step: an observation with its reward, its done flag and its metadata.

    ``has_plain_metadata`` says that the metadata are only names and finite numbers, whose JSON is the same everywhere.
    ``written`` is the outcome as JSON for its session's transport, where a trace needed it before the transport.
    """

    observation: BaseModel | WrittenJson
    reward: Scalar | None = None
    done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    has_plain_metadata: bool = False
    written: Written | None = field(default=None, init=False, repr=False, compare=False)


def outcome_of(returned: Any) -> Outcome:
    """Return the outcome in a return value of ``reset`` or ``step``.

    Args:
        returned: An observation, or a tuple in one of the forms that ``Environment`` documents. Of Gymnasium's five
            values, ``terminated`` and ``truncated`` are kept in the metadata, and ``done`` is either. An outcome is
            returned unchanged.

    Raises:
        EnvironmentFailedError: The value has none of these forms, or the reward is no finite number.
    """
    if type(returned) is Outcome:  # first, since isinstance of a model's class takes longer
        return returned
    if isinstance(returned, Observation):
        reward = returned.reward
        if type(reward) is not float or not math.isfinite(reward):
            reward = _finite(reward)
        return Outcome(returned, reward, returned.done, returned.metadata)
    if isinstance(returned, BaseModel):
        return _from_plain_model(returned)
    if isinstance(returned, tuple) and returned and isinstance(returned[0], BaseModel):
        return _from_tuple(returned)
    if isinstance(returned, tuple):
        shape = ", ".join(type(value).__name__ for value in returned)
        raise EnvironmentFailedError(f"The environment returned ({shape}); expected {_FORMS}.")
    advice = dataclass_advice(type(returned)) or ""
    came = f"The environment returned {type(returned).__name__}; expected {_FORMS}. {advice}"
    raise EnvironmentFailedError(came.rstrip())


def _from_plain_model(observation: BaseModel) -> Outcome:
    """Return the outcome of a model that is no ``Observation`` but may have some of its fields."""
    metadata = getattr(observation, "metadata", None)
    return Outcome(
        observation,
        _finite(getattr(observation, "reward", None)),
        _flag(getattr(observation, "done", False)),
        metadata if isinstance(metadata, dict) else {},
    )


def _from_tuple(returned: tuple[Any, ...]) -> Outcome:
    own = outcome_of(returned[0])
    match returned[1:]:
        case (dict() as info,):
            return Outcome(own.observation, own.reward, own.done, own.metadata | info)
        case (reward, done):
            return Outcome(own.observation, _finite(reward), _flag(done), own.metadata)
        case (reward, done, dict() as info):
            return Outcome(own.observation, _finite(reward), _flag(done), own.metadata | info)
        case (reward, terminated, truncated, dict() as info):
            ends = {"terminated": _flag(terminated), "truncated": _flag(truncated)}
            return Outcome(own.observation, _finite(reward), any(ends.values()), own.metadata | info | ends)
    shape = ", ".join(type(value).__name__ for value in returned)
    raise EnvironmentFailedError(f"The environment returned ({shape}); expected {_FORMS}.")


def _finite(reward: Any) -> Scalar | None:
    """Check a reward. An integer stays an integer, since the public wire distinguishes it from a float."""
    if reward is None or isinstance(reward, bool) or (type(reward) is float and math.isfinite(reward)):
        return reward
    if isinstance(reward, str | bytes):
        raise _invalid_reward(f"{reward!r:.100}; expected a number or None.")
    try:
        number = float(single_value(reward))  # numpy and torch scalars included
    except (TypeError, ValueError, RuntimeError):
        raise _invalid_reward(f"{reward!r:.100}; expected a number or None.") from None
    except OverflowError:  # an integer too large for a float
        number = math.inf
    if not math.isfinite(number):
        raise _invalid_reward(f"{number}; expected a finite number or None.")
    return reward if isinstance(reward, int) else number


def _invalid_reward(reason: str) -> EnvironmentFailedError:
    return EnvironmentFailedError(f"The reward is {reason}", failure=FailureKind.INVALID_REWARD.value)


def _flag(value: Any) -> bool:
    """Check a done flag, which may be a numpy or torch scalar."""
    if isinstance(value, bool):
        return value
    try:
        return bool(value)
    except (TypeError, ValueError, RuntimeError):
        raise EnvironmentFailedError(f"The done flag is {value!r:.100}; expected true or false.") from None


# --- Pictures --------------------------------------------------------------------------------------------------------


class Picture(BaseMessage):
    """Picture of an environment's state.

    Attributes:
        media_type: ``text/plain`` (with a terminal's colours), ``text/html``, ``image/svg+xml``, ``image/png`` or
            another type of image.
        content: The text; for an image other than SVG, its bytes in base64.
    """

    media_type: str
    content: str

    @property
    def image(self) -> bytes | None:
        """Return the bytes of an image; ``None`` if the content is text."""
        return None if self.media_type in _WRITTEN else base64.b64decode(self.content)


class WebAction(BaseMessage):
    """Button with which a page offers an action.

    Attributes:
        label: Text of the button.
        action: Fields of the action.
    """

    label: str
    action: dict[str, Any]


class WebView(BaseMessage):
    """What an environment shows of an observation in a page.

    Attributes:
        html: HTML for a frame without scripts; ``None`` where the environment writes none.
        actions: Actions that the environment offers.
        media_type: Of a picture, where there is one and no HTML; as in ``Picture``.
        content: Of the picture.
    """

    html: str | None = None
    actions: Sequence[WebAction] = ()
    media_type: str | None = None
    content: str | None = None


def web_view_of(html: Any, actions: Any, picture: Picture | None) -> WebView:
    """Return the view of an observation.

    Args:
        html: Return value of ``render_web``.
        actions: Return value of ``web_actions``: pairs of a label and an action's fields.
        picture: The picture, where there is no HTML.

    Raises:
        EnvironmentFailedError: A value is of another type.
    """
    try:
        offered = [WebAction(label=label, action=action) for label, action in actions or ()]
        shown = {} if picture is None else picture.model_dump()
        return WebView(html=html, actions=offered, **shown)
    except (TypeError, ValueError) as error:
        raise EnvironmentFailedError(
            "Expected render_web() to return HTML or None, and web_actions() pairs of a label and an action's fields: "
            f"{error}"
        ) from error


@dataclass(slots=True, frozen=True)
class ImageFile:
    """Picture whose file is kept as bytes, for a wire that carries bytes.

    Attributes:
        media_type: Type of the image.
        image: The file.
    """

    media_type: str
    image: bytes

    @property
    def picture(self) -> Picture:
        """The picture with the file in base64."""
        return Picture(media_type=self.media_type, content=base64.b64encode(self.image).decode())


def picture_of(rendered: Any) -> Picture | None:
    """Return the picture in a return value of ``render``.

    Args:
        rendered: Text, HTML, SVG; the bytes of a PNG, JPEG, GIF or WebP image; an array of bytes with the shape
            ``(height, width)``, ``(height, width, 3)`` or ``(height, width, 4)``; or ``None`` for no picture.

    Returns:
        The picture, or ``None`` for no picture.

    Raises:
        EnvironmentFailedError: The value is of another type.

    Example:
        >>> picture_of("X.O")
        Picture(media_type='text/plain', content='X.O')
    """
    found = rendered_picture(rendered)
    return found.picture if isinstance(found, ImageFile) else found


def rendered_picture(rendered: Any) -> Picture | ImageFile | None:
    """Return the picture as ``picture_of`` does, with the file of an image as bytes."""
    if rendered is None or (isinstance(rendered, str) and not rendered):
        return None
    if isinstance(rendered, str):
        start = rendered.lstrip()[:20].lower()
        kind = next((kind for beginning, kind in _MARKUP.items() if start.startswith(beginning)), TEXT)
        return Picture(media_type=kind, content=rendered)
    if isinstance(rendered, bytes | bytearray):
        image = image_type(rendered)
        if image is None:
            raise _unknown(f"{len(rendered)} bytes of no known kind of image")
        return ImageFile(image, bytes(rendered))
    return ImageFile(PNG, png_of(rendered))


def image_type(file: bytes | bytearray) -> str | None:
    """Return the media type of an image file by its first bytes; ``None`` for other types than PNG, JPEG, GIF, WebP.

    Args:
        file: The file's bytes.
    """
    if file[:4] == b"RIFF" and file[8:12] == b"WEBP":  # WAV files begin with RIFF, too
        return "image/webp"
    return next((kind for beginning, kind in _MAGIC.items() if file.startswith(beginning)), None)


def png_of(pixels: Any) -> bytes:
    """Return an array of pixels as PNG.

    Args:
        pixels: Bytes with the shape ``(height, width)``, ``(height, width, 3)`` or ``(height, width, 4)``, such as a
            NumPy array of ``uint8``.

    Raises:
        EnvironmentFailedError: It is something else.
    """
    try:
        view = memoryview(pixels)
    except TypeError:
        raise _unknown(type(pixels).__name__) from None
    shape = view.shape or ()
    depth = 1 if len(shape) == 2 else shape[2] if len(shape) == 3 else 0
    if view.format != "B" or depth not in _COLOUR_TYPES or 0 in shape:
        raise _unknown(f"an array of the shape {shape} and the format {view.format!r}")
    height, width = shape[:2]
    flat = view.tobytes()
    row_bytes = width * depth
    # Each row begins with its filter type; 0 is none.
    rows = b"".join(b"\0" + flat[start : start + row_bytes] for start in range(0, height * row_bytes, row_bytes))
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[depth], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _unknown(came: str) -> EnvironmentFailedError:
    return EnvironmentFailedError(
        "Expected render() to return text, HTML, SVG, the bytes of a PNG, JPEG, GIF or WebP image, an array of bytes "
        f"with the shape (height, width[, 3 or 4]), or None; got {came}."
    )


def component_scores(metadata: Any) -> dict[str, float]:
    """Return the scores of a reward's components in the metadata of an outcome, those that are finite numbers.

    Args:
        metadata: The metadata.

    Example:
        >>> component_scores({"reward_signals": {"format": 1.0}})
        {'format': 1.0}
    """
    named = metadata.get(REWARD_SIGNALS) if isinstance(metadata, Mapping) else None
    if not isinstance(named, Mapping):
        return {}
    return {str(name): score for name, score in named.items() if isinstance(score, int | float) and _is_finite(score)}


def _is_finite(number: float) -> bool:
    """Return whether a number is finite; an integer may be too large for what can be added up."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def component_totals(steps: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sum of each component's scores over steps.

    Args:
        steps: The scores of each step's components, by name.

    Example:
        >>> component_totals([{"format": 1.0}, {"format": 1.0, "answer": 0.5}])
        {'format': 2.0, 'answer': 0.5}
    """
    totals: dict[str, float] = {}
    for components in steps:
        for name, score in components.items():
            totals[name] = totals.get(name, 0.0) + score
    return totals


def known_sum(one: Number | None, other: Number | None) -> Number | None:
    """Return the sum of two numbers; ``None`` where one is not known."""
    return None if one is None or other is None else one + other


@dataclass(frozen=True)
class ParticipantUsage:
    """Replies of a participant, such as an environment's user or an opponent, and what they took.

    Attributes:
        replies: Number of replies.
        input_tokens: Tokens that its model read, 0 without a model; ``None`` where they are not known of one reply.
        output_tokens: Tokens that its model wrote, alike.
        cost_usd: Their cost in US dollars, alike.
        model: Name of its model; ``None`` without one.

    Example:
        >>> ParticipantUsage(1, 20, 5, 0.25) + ParticipantUsage(2, 30, 5)
        ParticipantUsage(replies=3, input_tokens=50, output_tokens=10, cost_usd=None, model=None)
    """

    replies: Annotated[int, Field(ge=0)] = 0
    input_tokens: Annotated[int, Field(ge=0)] | None = None
    output_tokens: Annotated[int, Field(ge=0)] | None = None
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    model: str | None = None

    def __add__(self, other: "ParticipantUsage") -> "ParticipantUsage":
        """Return the sum, with the last known model; of an unknown number there is no sum."""
        return ParticipantUsage(
            self.replies + other.replies,
            known_sum(self.input_tokens, other.input_tokens),
            known_sum(self.output_tokens, other.output_tokens),
            known_sum(self.cost_usd, other.cost_usd),
            other.model or self.model,
        )

    def __str__(self) -> str:
        """Return it in words."""
        if self.model is None:
            return f"{self.replies} replies"
        tokens, cost = "tokens not known", "price not known"
        if self.input_tokens is not None and self.output_tokens is not None:
            tokens = f"{self.input_tokens:,} tokens read, {self.output_tokens:,} written"
        if self.cost_usd is not None:
            cost = f"${self.cost_usd:.4g}"
        return f"{self.replies} replies of {self.model}, {tokens}, {cost}"


NO_REPLIES = ParticipantUsage(0, 0, 0, 0.0)
"""Usage of a participant that has not replied."""

_PARTICIPANTS = TypeAdapter(dict[str, ParticipantUsage])


def participants_of(value: Any) -> dict[str, ParticipantUsage]:
    """Read what participants have used, by their names, from metadata or a record; none where it can't be read.

    Args:
        value: The value under the name ``participants``.

    Example:
        >>> participants_of({"user": {"replies": 2}})["user"].replies
        2
    """
    if value is None:  # as in most steps
        return {}
    try:
        return _PARTICIPANTS.validate_python(value)
    except ValidationError:
        return {}


def participant_totals(episodes: Iterable[Mapping[str, ParticipantUsage]]) -> dict[str, ParticipantUsage]:
    """Return the sum over episodes of what each participant has used, by name.

    Args:
        episodes: What the participants of each episode have used.
    """
    totals: dict[str, ParticipantUsage] = {}
    for participants in episodes:
        for name, usage in participants.items():
            totals[name] = totals.get(name, NO_REPLIES) + usage
    return totals
