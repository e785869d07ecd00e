import pytest
from pydantic import ValidationError

from echo_env import EchoAction, EchoObservation
from echo_env.models import EchoAction as EchoActionOfModels


def test_the_package_and_its_models_hand_out_the_same_class() -> None:
    assert EchoActionOfModels is EchoAction


@pytest.mark.parametrize("fields", [{}, {"message": None}, {"message": 7}, {"message": "a", "volume": 11}])
def test_an_action_is_one_message_and_nothing_else(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EchoAction.model_validate(fields)


def test_an_observation_has_no_negative_length() -> None:
    with pytest.raises(ValidationError):
        EchoObservation(echoed_message="a", message_length=-1)
