"""``openenv train`` on what ``openenv init`` makes: from random weights to solved."""

from pathlib import Path

import pytest
from tests.support.environment_folders import fresh_scaffold

from openenv.train.run.training import train
from openenv.train.settings.config import load_config


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_scaffold_is_solved_from_random_weights(tmp_path: Path) -> None:
    environment = str(fresh_scaffold(tmp_path, "only_here_env"))
    # Half of the steps are enough for it; that a run with nothing set ends well is shown with Catch.
    result = train(load_config(environment=environment, steps=150, output_dir=tmp_path))
    assert result.scores["before training"].mean_reward < 0.3
    assert result.scores["after training"].mean_reward >= 0.95
