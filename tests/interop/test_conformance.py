"""The public package's server keeps to the legacy wire as our page documents it."""

from tests.interop.conftest import Templates, running_server

from openenv.validation.conformance import check_conformance
from openenv.validation.types import CheckStatus

# Differences that docs/wire.md lists, or that concern routes which the public package has not.
_PARTS = ("legacy", "v1")


def test_public_server_passes_the_legacy_part(templates: Templates) -> None:
    with running_server(templates["public"], "server", 8) as url:
        found = [(part.name, result) for part, result in check_conformance(url, parts=_PARTS, timeout_s=60)]
    assert {result.status for name, result in found if name == "v1"} == {CheckStatus.SKIP}
    failed = {result.check_id: result.evidence for name, result in found if result.status is CheckStatus.FAIL}
    assert failed == {}
