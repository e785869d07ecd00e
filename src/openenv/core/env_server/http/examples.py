"""Examples of JSON values, made from their JSON Schemas for the API's documentation."""

from typing import Any

from pydantic import BaseModel

from openenv.core.schema.values import example_value
from openenv.core.wire.errors import validated


def example_of(model: type[BaseModel]) -> dict[str, Any] | None:
    """Return an example of a class; ``None`` if the generated example is not valid.

    Args:
        model: The class. Its fields' ``examples`` win; else defaults, the first of several choices, and bounds.

    Example:
        >>> from typing import Literal
        >>> from pydantic import Field
        >>> class Move(BaseModel):
        ...     way: Literal["left", "right"]
        ...     steps: int = Field(ge=1)
        >>> example_of(Move)
        {'way': 'left', 'steps': 1}
    """
    example = example_value(model.model_json_schema())
    try:
        validated(model, example)
    except Exception:  # noqa: BLE001  # an author's own model_validate may raise anything
        return None
    return example if isinstance(example, dict) else None
