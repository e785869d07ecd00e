"""Transforms to build others from."""

from tests.support.environments.common import Total

from openenv.core.env_server.base_transforms import CompositeTransform, NullTransform
from openenv.core.env_server.interfaces import Transform


class Plus(Transform[Total]):
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, observation: Total) -> Total:
        return observation.model_copy(update={"total": observation.total + self.amount})


class Times(Plus):
    def __call__(self, observation: Total) -> Total:
        return observation.model_copy(update={"total": observation.total * self.amount})


def test_null() -> None:
    seen = Total(total=1)
    assert NullTransform[Total]()(seen) is seen


def test_composite_applies_the_first_one_first() -> None:
    both: CompositeTransform[Total] = CompositeTransform([Plus(1), Times(10), NullTransform()])
    assert both(Total(total=1)).total == 20
    other: CompositeTransform[Total] = CompositeTransform([Times(10), Plus(1)])
    assert other(Total(total=1)).total == 11


def test_an_empty_composite_changes_nothing() -> None:
    seen = Total(total=1)
    empty: CompositeTransform[Total] = CompositeTransform([])
    assert empty(seen) is seen


def test_a_composite_keeps_its_own_list() -> None:
    transforms = [Plus(1)]
    composite: CompositeTransform[Total] = CompositeTransform(transforms)
    transforms.append(Plus(5))
    assert composite(Total(total=0)).total == 1
