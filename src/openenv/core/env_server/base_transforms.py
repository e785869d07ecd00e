"""Transforms to build others from."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from openenv.core.env_server.interfaces import Transform

ObsT = TypeVar("ObsT", bound=BaseModel)


class NullTransform(Transform[ObsT]):
    """Leaves every observation as it is."""

    def __call__(self, observation: ObsT) -> ObsT:
        """Return the observation itself."""
        return observation


class CompositeTransform(Transform[ObsT]):
    """Applies several transforms, one after another.

    Args:
        transforms: The transforms, the first one first.
    """

    def __init__(self, transforms: Sequence[Transform[Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, observation: ObsT) -> ObsT:
        """Return what the last transform makes of it."""
        for transform in self.transforms:
            observation = transform(observation)
        return observation
