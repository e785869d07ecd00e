"""YAML that every reader understands alike: in the YAML of Kubernetes' tools a bare ``y`` or ``on`` is no text."""

import re
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes every text that another reader may take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return true: equal values are written twice."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    is_plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _text)


def yaml_text(content: Any) -> str:
    """Return JSON values as YAML, in their order.

    Example:
        >>> print(yaml_text({"name": "echo", "value": "on", "port": 8000}), end="")
        name: echo
        value: "on"
        port: 8000
    """
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)
    return text
