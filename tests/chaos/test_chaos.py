"""Every scenario in a small size; ``make chaos`` runs them in full."""

from pathlib import Path

import pytest
from tests.chaos.effort import SMALL
from tests.chaos.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_does_no_harm(name: str, tmp_path: Path) -> None:
    print(SCENARIOS[name](SMALL, tmp_path))  # noqa: T201  # shown where it fails, and with -rP
