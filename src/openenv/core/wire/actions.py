"""Actions: their classes, which may form a union, and how an action is made from its fields."""

import copyreg
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from types import UnionType
from typing import Annotated, Any, Generic, NewType, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, FailFast, RootModel, TypeAdapter, ValidatorFunctionWrapHandler, model_validator
from typing_extensions import TypeAliasType

from openenv.core.exceptions import InvalidRequestError
from openenv.core.plain_values import plain_value
from openenv.core.schema.json_models import reads_alike
from openenv.core.schema.reader import members
from openenv.core.wire.errors import validated, validates_itself
from openenv.core.wire.mcp_types import TOOL_ACTIONS
from openenv.core.wire.types import Action

MemberT = TypeVar("MemberT")

_TOOL_ACTION_CLASSES = tuple(TOOL_ACTIONS.values())
_TOOL_ACTION_FIELDS = {name for model in _TOOL_ACTION_CLASSES for name in model.model_fields}


class _UnionMeta(type(BaseModel)):  # type: ignore[misc]  # pydantic has no public name for its metaclass
    """Metaclass of classes that can be pickled for another process; see ``_reduced``."""


class ActionUnion(RootModel[MemberT], Generic[MemberT], metaclass=_UnionMeta):
    """Union of actions as a single class.

    Its schema is that of the union. Validation returns an instance of a member, never of this class.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _member(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        return handler(value).root

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Return the name of a union's class, made of its members' names."""
        return " | ".join(member.__name__ for member in _models_in(params[0]))


def action_model(annotation: Any) -> type[BaseModel] | None:
    """Return the class of an environment's actions.

    Args:
        annotation: A model's class or a union of such classes, which may name a discriminator.

    Returns:
        The class; ``None`` if the annotation names no model.

    Example:
        >>> class Guess(BaseModel):
        ...     word: str
        >>> class Hint(BaseModel):
        ...     letter: int
        >>> action_model(Guess | Hint).model_validate({"letter": 2})
        Hint(letter=2)
    """
    models = _models_in(annotation)
    if len(models) > 1:
        union: type[BaseModel] = ActionUnion[annotation]
        return union
    return models[0] if models else None


def action_members(action_class: type[BaseModel]) -> tuple[type[BaseModel], ...]:
    """Return the possible classes of an action: the members of a union, in a ``RootModel`` too, or the class itself."""
    if not issubclass(action_class, RootModel):
        return (action_class,)
    models = _models_in(action_class.model_fields["root"].annotation)
    found = dict.fromkeys(member for model in models for member in action_members(model))
    return tuple(found) or (action_class,)


def is_object(action_class: type[BaseModel]) -> bool:
    """Return whether some action of a class is an object in JSON, as requests have them: no ``RootModel`` of a list."""
    if not issubclass(action_class, RootModel) or action_members(action_class) != (action_class,):
        return True
    return any(kind.schema.get("type", "object") == "object" for kind in members(action_class.model_json_schema()))


def member_action(member: BaseModel, action_class: type[BaseModel]) -> BaseModel:
    """Return an action of a member's class as an environment gets it: within the ``RootModel`` that holds the union.

    It is made of the action's fields, as on the wire: a union's discriminator may be a function that reads these alone.

    Args:
        member: The action.
        action_class: The environment's class of actions.
    """
    if not issubclass(action_class, RootModel):
        return member
    with suppress(InvalidRequestError):
        made = decode_action(member.model_dump(mode="json", by_alias=True, fallback=plain_value), action_class)
        if type(action_member(made)) is type(member):
            return made
    return action_class.model_validate(member)  # members may look alike


def action_member(action: BaseModel) -> BaseModel:
    """Return the action that a ``RootModel`` holds, or the action itself; the inverse of ``member_action``."""
    while isinstance(action, RootModel) and isinstance(action.root, BaseModel):
        action = action.root
    return action


def takes_tool_actions(action_class: type[BaseModel]) -> bool:
    """Whether an environment with this class of actions accepts the actions that list and call tools."""
    return _makes_tool_actions(action_class) or takes_tool_actions_only(action_class)


def takes_tool_actions_only(action_class: type[BaseModel]) -> bool:
    """Whether a class of actions stands for no action but those that list and call tools.

    ``Action`` stands for any action of an environment with tools, and has none of its own. A class that makes them by
    its own ``model_validate`` has actions of its own, too, where it has further fields.
    """
    if _makes_tool_actions(action_class):
        return action_class.model_fields.keys() <= _TOOL_ACTION_FIELDS
    return action_class is Action or all(
        issubclass(member, _TOOL_ACTION_CLASSES) for member in action_members(action_class)
    )


@cache
def _makes_tool_actions(action_class: type[BaseModel]) -> bool:
    """Whether a class overrides ``model_validate`` so that it returns the actions that list and call tools."""
    if not validates_itself(action_class):
        return False
    try:
        made = action_class.model_validate({"type": "list_tools"})
    except Exception:  # noqa: BLE001  # an author's own method may raise anything
        return False
    return isinstance(made, _TOOL_ACTION_CLASSES)


def names_tool_action(fields: Mapping[str, Any]) -> bool:
    """Whether an action's fields are those of an action that lists or calls tools."""
    kind = fields.get("type")
    return isinstance(kind, str) and kind in TOOL_ACTIONS


def decode_action(data: Mapping[str, Any], action_class: type[BaseModel], offers_tools: bool = False) -> BaseModel:
    """Make the action from a step message's ``data``.

    Args:
        data: The action's fields.
        action_class: The environment's class of actions.
        offers_tools: Whether the environment also accepts the actions that list and call tools. They are recognized by
            their ``type``, unless it makes an action of the environment's own; see `own_action`.

    Raises:
        InvalidRequestError: The fields do not fit the action's class; ``loc`` of each entry is relative to the action.
    """
    if offers_tools and names_tool_action(data):
        own = own_action(data, action_class)
        return validated(TOOL_ACTIONS[data["type"]], data) if own is None else own
    return validated(action_class, data)


def own_action(data: Mapping[str, Any], action_class: type[BaseModel]) -> BaseModel | None:
    """Make an action of an environment's own from fields whose ``type`` is that of an action for tools.

    Args:
        data: The fields.
        action_class: The environment's class of actions.

    Returns:
        The action; ``None`` where the class has no field ``type`` and no ``model_validate`` of its own, or they do not
        accept the fields.
    """
    if validates_itself(action_class):
        with suppress(Exception):  # an author's own method may raise anything for a type that it does not know
            return validated(action_class, data)
    elif _has_type_field(action_class):
        with suppress(InvalidRequestError):
            return validated(action_class, data)
    return None


class ActionColumn:
    """Validates the actions of several sessions in one call, which costs half of as many calls.

    Args:
        action_class: The environment's class of actions.
    """

    def __init__(self, action_class: type[BaseModel]) -> None:
        self._action_class = action_class

    def read(self, column: list[dict[str, Any]]) -> Sequence[BaseModel | None]:
        """Return the actions; only ``None`` if any is invalid, or the class is not read by its own validator alone.

        Each session validates an action again that it gets without a model, and so raises the error of its own slot.

        Args:
            column: The fields of each action.
        """
        if validates_itself(self._action_class) or not reads_alike(self._action_class):
            return [None] * len(column)
        try:
            actions: list[BaseModel] = self._validator.validate_python(column, by_alias=True, by_name=True)
        except Exception:  # noqa: BLE001  # a validator of the author's may raise anything, in its session once more
            return [None] * len(column)
        return actions

    @cached_property
    def _validator(self) -> Any:
        item: Any = self._action_class
        return TypeAdapter(Annotated[list[item], FailFast()]).validator


@cache
def _has_type_field(action_class: type[BaseModel]) -> bool:
    fields = (field for member in action_members(action_class) for field in member.model_fields.items())
    return any("type" in (name, field.alias, field.validation_alias) for name, field in fields)


def _models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _models_in(get_args(annotation)[0])
    if isinstance(origin, TypeAliasType):
        return _models_in(origin.__value__[get_args(annotation)])
    if isinstance(annotation, TypeAliasType):
        return _models_in(annotation.__value__)
    if isinstance(annotation, NewType):
        return _models_in(annotation.__supertype__)
    if origin in (Union, UnionType):
        return tuple(model for member in get_args(annotation) for model in _models_in(member))
    return (annotation,) if isinstance(annotation, type) and issubclass(annotation, BaseModel) else ()


def _annotation_of(union: Any) -> Any:
    return union.__pydantic_generic_metadata__["args"][0]


def _reduced(cls: type) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    """Pickle the class of a union as the union: no module has the class for an import."""
    return cls.__qualname__ if cls is ActionUnion else (action_model, (_annotation_of(cls),))


copyreg.pickle(_UnionMeta, _reduced)
