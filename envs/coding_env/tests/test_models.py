import pytest
from pydantic import ValidationError

from coding_env import CodeAction, CodeObservation, CodeState


def test_the_public_shapes() -> None:
    assert CodeAction(code="print(1)").code == "print(1)"
    observation = CodeObservation()
    assert (observation.stdout, observation.stderr, observation.exit_code) == ("", "", 0)
    assert CodeState().last_exit_code == 0
    assert CodeObservation(stdout="1\n", stderr="", exit_code=0).stdout == "1\n"


@pytest.mark.parametrize("fields", [{}, {"code": 5}, {"code": "x" * 1_000_001}, {"code": "1", "more": 1}])
def test_what_is_no_action(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CodeAction.model_validate(fields)
