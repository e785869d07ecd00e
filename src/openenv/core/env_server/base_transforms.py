"""Transforms: one that changes nothing, and one that applies several."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from openenv.core.env_server.interfaces import Transform
from openenv.core.wire.types import Observation as Observation

ObsT = TypeVar("ObsT", bound=BaseModel)


class NullTransform(Transform[ObsT]):
    """Transform that leaves every observation unchanged."""

    def __call__(self, observation: ObsT) -> ObsT:
        """Return the observation itself."""
        return observation


class CompositeTransform(Transform[ObsT]):
    """Transform that applies several transforms, one after another.

    Args:
        transforms: The transforms, in order.
    """

    def __init__(self, transforms: Sequence[Transform[Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, observation: ObsT) -> ObsT:
        """Return the result of the last transform."""
        for transform in self.transforms:
            observation = transform(observation)
        return observation
