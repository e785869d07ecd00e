"""``VariableSettings``: a program's settings, read from environment variables."""

from typing import ClassVar, Literal

import pytest
from pydantic import Field, ValidationError

from openenv.core.exceptions import ConfigurationError
from openenv.core.variables import VariableSettings


class GardenSettings(VariableSettings):
    """A setting of each kind."""

    PREFIX: ClassVar[str] = "GARDEN_"

    trees: int = Field(3, ge=1)
    soil: Literal["sand", "clay"] = "sand"
    is_open: bool = True
    gate: str | None = None


def test_a_variable_that_is_not_set_or_empty_leaves_the_default() -> None:
    assert GardenSettings.from_variables({"GARDEN_TREES": "", "TREES": "9"}) == GardenSettings()


def test_variables_are_read_by_the_types_of_the_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TREES": "7", "SOIL": "clay", "IS_OPEN": "0", "GATE": "7"}.items():
        monkeypatch.setenv(f"GARDEN_{name}", value)
    assert GardenSettings.from_variables() == GardenSettings(trees=7, soil="clay", is_open=False, gate="7")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TREES", "0", "GARDEN_TREES is '0'; expected greater than or equal to 1."),
        ("TREES", "many", "GARDEN_TREES is 'many'; expected a valid integer"),
        ("SOIL", "peat", "GARDEN_SOIL is 'peat'; expected 'sand' or 'clay'."),
        ("IS_OPEN", "2", "GARDEN_IS_OPEN is '2'; expected a valid boolean"),
    ],
)
def test_a_wrong_value_is_refused_and_named(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        GardenSettings.from_variables({f"GARDEN_{name}": value})
    assert str(refused.value).startswith(said)


def test_settings_have_no_other_fields_and_do_not_change() -> None:
    with pytest.raises(ValidationError):
        GardenSettings(treees=4)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        GardenSettings().trees = 4  # type: ignore[misc]
    assert hash(GardenSettings(trees=4)) == hash(GardenSettings(trees=4))
