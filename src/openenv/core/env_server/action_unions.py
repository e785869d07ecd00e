"""Environments that take several kinds of actions: one class that stands for a union of them."""

import copyreg
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, RootModel, ValidatorFunctionWrapHandler, model_validator

MemberT = TypeVar("MemberT")


class _UnionMeta(type(BaseModel)):  # type: ignore[misc]  # pydantic has no public name for its metaclass
    """What classes are made of that another process can make again; see ``_reduced``."""


class ActionUnion(RootModel[MemberT], Generic[MemberT], metaclass=_UnionMeta):
    """Stands for a union of actions wherever one class is expected.

    Its schema is that of the union. What it validates becomes one of the members, never an instance of this class.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _member(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        return handler(value).root

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Name the class of a union by its members."""
        return " | ".join(member.__name__ for member in _models_in(params[0]))


def action_model(annotation: Any) -> type[BaseModel] | None:
    """Find the class that stands for what an environment takes as its action.

    Args:
        annotation: A model's class or a union of such, which may name a discriminator.

    Returns:
        The class; ``None`` where the annotation names no model.

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
    """Return the classes that an action may be of: the members of a union, or the one class."""
    if issubclass(action_class, ActionUnion):
        return _models_in(_annotation_of(action_class))
    return (action_class,)


def _models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    if get_origin(annotation) is Annotated:
        return _models_in(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(model for member in get_args(annotation) for model in _models_in(member))
    return (annotation,) if isinstance(annotation, type) and issubclass(annotation, BaseModel) else ()


def _annotation_of(union: Any) -> Any:
    return union.__pydantic_generic_metadata__["args"][0]


def _reduced(cls: type) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    """Pickle the class of a union as the union: it stands in no module from which it could be imported."""
    return cls.__qualname__ if cls is ActionUnion else (action_model, (_annotation_of(cls),))


copyreg.pickle(_UnionMeta, _reduced)
