"""What is loaded of a project of verifiers; that it is imported and played is tried in tests/cli."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from openenv.adapters.verifiers.loading import VerifiersTasks


def test_a_dataset_that_can_not_be_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Any:
        return json.loads("[{")

    loaded = SimpleNamespace(get_dataset=lambda: [{"question": "1 + 1?"}], get_eval_dataset=broken)
    assert VerifiersTasks(loaded).task_counts == {"train": 1}
    assert "The split eval has no tasks: its dataset is missing or broken." in caplog.text
    assert "JSONDecodeError" in caplog.text
