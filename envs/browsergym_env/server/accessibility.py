"""The accessibility tree of a page as text, in the form that BrowserGym gives it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# What says nothing that its neighbours do not say.
_UNSAID_ROLES = {"LineBreak", "InlineTextBox", "none"}
_UNSAID_PROPERTIES = {"editable", "focusable", "invalid", "level", "multiline", "readonly", "settable"}
# Said by their name alone, and only where they hold.
_FLAGS = {"atomic", "busy", "focused", "required"}

Node = Mapping[str, Any]

# Of a node in the DOM: its type.
_ELEMENT = 1


def accessibility_text(nodes: Sequence[Node], bids: Mapping[int, str]) -> str:
    """Write an accessibility tree, one line for each node with content.

    Args:
        nodes: The ``nodes`` of Chromium's ``Accessibility.getFullAXTree``.
        bids: The bid of each element, by the ``backendNodeId`` that Chromium has for it.

    Returns:
        Lines such as ``[13] button 'Submit', focused``, with a tab for each level of the tree.
    """
    tree = _Tree(nodes, bids)
    return "\n".join(tree.lines(nodes[0], 0, "")) if nodes else ""


def bids_of(document: Node) -> dict[int, str]:
    """Find the bid of every element.

    Args:
        document: The ``root`` of Chromium's ``DOM.getDocument``.

    Returns:
        The bids by ``backendNodeId``. The parts that the browser makes up for an element, such as the year in a field
        for a date, have the element's bid.
    """
    found: dict[int, str] = {}
    waiting: list[tuple[Node, str | None]] = [(document, None)]
    while waiting:
        node, host_bid = waiting.pop()
        bid = _attribute(node, "bid") or host_bid
        if bid is not None and node["nodeType"] == _ELEMENT:
            found[node["backendNodeId"]] = bid
        waiting += ((child, host_bid) for child in node.get("children", ()))
        waiting += ((root, bid) for root in node.get("shadowRoots", ()))
    return found


def _attribute(node: Node, name: str) -> str | None:
    attributes = node.get("attributes", [])
    value: str | None = dict(zip(attributes[::2], attributes[1::2], strict=True)).get(name)
    return value


class _Tree:
    """The nodes of a tree, on their way to text."""

    def __init__(self, nodes: Sequence[Node], bids: Mapping[int, str]) -> None:
        self._nodes = {node["nodeId"]: node for node in nodes}
        self._bids = bids

    def lines(self, node: Node, depth: int, name_above: str) -> Iterator[str]:
        """Write a node and what is below it.

        Args:
            node: The node.
            depth: How deep its line stands.
            name_above: Name of the closest node above that has a line.
        """
        said = _says_something(node, name_above)
        if said:
            yield "\t" * depth + self._line(node)
        below = (depth + 1, _name(node)) if said else (depth, name_above)
        for child in node.get("childIds", ()):
            if child in self._nodes:
                yield from self.lines(self._nodes[child], *below)

    def _line(self, node: Node) -> str:
        bid = self._bids.get(node.get("backendDOMNodeId", -1))
        head = "" if bid is None else f"[{bid}] "
        value = f" value={_value(node['value'])!r}" if "value" in node else ""
        return ", ".join([f"{head}{_value(node['role'])} {_name(node)!r}{value}", *_properties(node)])


def _says_something(node: Node, name_above: str) -> bool:
    role, name = _value(node["role"]), _name(node)
    if node.get("ignored") or role in _UNSAID_ROLES:
        return False
    if role == "StaticText":
        return bool(name) and name not in name_above
    return role != "generic" or bool(name) or bool(_properties(node))


def _properties(node: Node) -> list[str]:
    said = {one["name"]: _value(one["value"]) for one in node.get("properties", ()) if "value" in one["value"]}
    return [
        name if name in _FLAGS else f"{name}={value!r}"
        for name, value in said.items()
        if name not in _UNSAID_PROPERTIES and (name not in _FLAGS or value)
    ]


def _name(node: Node) -> str:
    return str(_value(node.get("name"))).strip()


def _value(held: Any) -> Any:
    """The value in Chromium's ``{"type": ..., "value": ...}``; an empty text where there is none."""
    return "" if held is None else held.get("value", "")
