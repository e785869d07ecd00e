"""What a builder of a page learns of an action; that the page works is tried in tests/interop/test_gradio.py."""

from typing import Literal

from pydantic import Field

from openenv import Action
from openenv.core.env_server.web.custom_tab import action_fields


class Everything(Action):
    move: Literal["left", "right"] = "left"
    amount: int = Field(ge=1, le=9, description="how many")
    is_final: bool = False
    python_code: str = ""
    name: str = Field("", max_length=20, pattern="[a-z]*")
    essay: str = Field("", max_length=2000)
    tokens: list[int] = Field(default_factory=list)
    nested: dict[str, int] = Field(default_factory=dict)


def test_each_field_has_what_a_form_needs() -> None:
    fields = {field["name"]: field for field in action_fields(Everything)}
    assert {name: field["type"] for name, field in fields.items()} == {
        "move": "select",
        "amount": "number",
        "is_final": "checkbox",
        "python_code": "textarea",
        "name": "text",
        "essay": "textarea",
        "tokens": "tensor",
        "nested": "text",
    }
    assert fields["move"]["choices"] == ["left", "right"]
    amount, name = fields["amount"], fields["name"]
    assert (amount["required"], amount["min_value"], amount["max_value"], amount["help_text"]) == (
        True,
        1,
        9,
        "how many",
    )
    assert (name["required"], name["default_value"], name["max_length"], name["pattern"]) == (False, "", 20, "[a-z]*")
    assert (fields["is_final"]["placeholder"], fields["is_final"]["help_text"]) == ("Enter is final", "Is final")
