"""Leftovers that the engine can't remove; those that it can are in ``test_provider``."""

from contextlib import closing
from dataclasses import replace

import pytest
from tests.core.providers.docker.conftest import FailingEngine

from openenv.core.exceptions import ProviderError
from openenv.core.providers.docker.engine import connect
from openenv.core.providers.docker.labels import OWNER
from openenv.core.providers.docker.leftovers import remove_leftovers
from openenv.core.providers.docker.owner import Owner


def test_one_that_can_t_be_removed_keeps_no_other_from_it(
    failing_engine: FailingEngine, caplog: pytest.LogCaptureFixture
) -> None:
    gone = {OWNER: str(replace(Owner.this_process(), boot="earlier"))}
    failing_engine.answers |= {
        "GET /containers/json": [{"Id": "stuck", "Labels": gone}, {"Id": "free", "Labels": gone}],
        "DELETE /containers/free": None,
        "GET /services": [{"ID": "fixed", "Spec": {"Labels": gone}}, {"ID": "spare", "Spec": {"Labels": gone}}],
        "DELETE /services/spare": None,
    }
    with closing(connect()) as client:
        remove_leftovers(client)
    removed = {
        f"DELETE /{name}" for name in ("containers/stuck", "containers/free", "services/fixed", "services/spare")
    }
    assert removed <= set(failing_engine.asked)
    assert caplog.messages == [
        "the service fixed, whose process has ended, can't be removed: the disk is full",
        "the container stuck, whose process has ended, can't be removed: the disk is full",
    ]


def test_an_engine_that_lists_nothing_is_an_error(failing_engine: FailingEngine) -> None:
    with closing(connect()) as client:
        with pytest.raises(ProviderError, match="does not list its containers: the disk is"):
            remove_leftovers(client)
        failing_engine.answers["GET /containers/json"] = []
        with pytest.raises(ProviderError, match="does not list the services of its swarm: the disk is"):
            remove_leftovers(client)
