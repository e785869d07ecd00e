import pytest
from pydantic import TypeAdapter, ValidationError

from terminal_env import RunAction, SubmitAction, TerminalAction
from terminal_env.models import DIFFICULTIES, FAMILIES
from terminal_env.server import families


def test_an_action_is_told_by_its_type() -> None:
    adapter: TypeAdapter[TerminalAction] = TypeAdapter(TerminalAction)
    assert isinstance(adapter.validate_python({"type": "run", "command": "ls"}), RunAction)
    assert isinstance(adapter.validate_python({"type": "submit"}), SubmitAction)
    for wrong in ({"type": "run", "command": ""}, {"type": "read_file", "path": ""}, {"type": "fly"}, {"type": "run"}):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


def test_the_names_of_families_are_those_that_there_are() -> None:
    assert tuple(families.FAMILIES) == FAMILIES
    assert len(DIFFICULTIES) == 3
