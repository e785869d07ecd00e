"""``openenv train catch`` with nothing set: from random weights to solved."""

from pathlib import Path

import pytest
from tests.goldens.golden import check, stored
from tests.goldens.table import GOLDENS
from tests.goldens.training import CATCH


@pytest.mark.timeout(900)
def test_catch_is_solved_from_random_weights(tmp_path: Path) -> None:
    """The run is that of the golden, which was solved; on another machine it goes to the end itself."""
    made = check(CATCH.golden, GOLDENS[CATCH.golden], tmp_path)
    assert CATCH.solved == (0.0, 0.97)
    CATCH.check_solved({**stored(CATCH.golden), **made})
