"""Conformance of any server to the wires as they are documented."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__, {"openenv.validation.conformance.suite": ("PARTS", "WirePart", "check_conformance")}
)
