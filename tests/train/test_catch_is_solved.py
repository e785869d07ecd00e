"""``openenv train catch`` with nothing set: from random weights to solved."""

from pathlib import Path

import pytest

from openenv.train.run.training import train
from openenv.train.settings.config import load_config


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_catch_is_solved_from_random_weights(tmp_path: Path) -> None:
    result = train(load_config(environment="catch", output_dir=tmp_path))
    assert result.scores["before training"].mean_reward < 0
    assert result.scores["after training"].mean_reward >= 0.97
