"""A cluster for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.services.kubernetes_cluster import TestCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TestCluster]:
    with TestCluster(tmp_path) as running:
        yield running
