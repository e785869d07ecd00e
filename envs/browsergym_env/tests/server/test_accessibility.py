from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from browsergym_env.server.accessibility import accessibility_text, bids_of


def node(number: int, role: str, name: str = "", children: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    properties = [{"name": key, "value": {"type": "string", "value": value}} for key, value in more.items()]
    return {
        "nodeId": str(number),
        "role": {"type": "role", "value": role},
        "name": {"type": "computedString", "value": name},
        "properties": properties,
        "childIds": [str(child) for child in children],
        "backendDOMNodeId": 100 + number,
    }


def test_a_tree_is_written_as_browsergym_writes_it() -> None:
    field = node(3, "textbox", "It's", focused=True, required=True, invalid="false") | {"value": {"value": "abc"}}
    nodes = [
        node(1, "RootWebArea", "Page", (2,), focusable=True, url="file:///a"),
        node(2, "generic", "", (3, 4, 5)),
        field,
        node(4, "checkbox", "Yes", (6,), checked="false"),
        node(5, "StaticText", " words \xa0"),
        node(6, "StaticText", "Yes", (7,)),
        node(7, "InlineTextBox", "Yes"),
    ]
    assert accessibility_text(nodes, {103: "12", 104: "13"}) == (
        "RootWebArea 'Page', url='file:///a'\n"
        "\t[12] textbox \"It's\" value='abc', focused, required\n"
        "\t[13] checkbox 'Yes', checked='false'\n"
        "\tStaticText 'words'"
    )


def test_what_is_ignored_has_no_line_but_what_is_below_it_has() -> None:
    hidden = node(2, "none", "", (3,)) | {"ignored": True}
    assert accessibility_text([node(1, "RootWebArea", "P", (2, 9)), hidden, node(3, "button", "B")], {}) == (
        "RootWebArea 'P'\n\tbutton 'B'"
    )
    assert accessibility_text([], {}) == ""


@given(st.text())
def test_no_name_breaks_a_line(name: str) -> None:
    text = accessibility_text([node(1, "RootWebArea", name)], {})
    assert text.isprintable()


def test_bids_are_found_and_passed_on_to_what_the_browser_makes_up() -> None:
    year = {"nodeType": 1, "backendNodeId": 5, "attributes": ["part", "year"]}
    shadow = {"nodeType": 11, "backendNodeId": 4, "children": [year]}
    field = {"nodeType": 1, "backendNodeId": 3, "attributes": ["id", "x", "bid", "7"], "shadowRoots": [shadow]}
    text = {"nodeType": 3, "backendNodeId": 6}
    body = {"nodeType": 1, "backendNodeId": 2, "attributes": ["bid", "1"], "children": [field, text]}
    assert bids_of({"nodeType": 9, "backendNodeId": 1, "children": [body]}) == {2: "1", 3: "7", 5: "7"}
