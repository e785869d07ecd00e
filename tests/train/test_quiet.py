"""Only what a user can do nothing about is kept from them."""

import logging
import warnings

import pytest
from transformers.utils import logging as transformers_logging

from openenv.train.quiet import quiet_libraries

CHECKPOINTS = logging.getLogger("transformers.trainer_utils")
TRAINER = logging.getLogger("transformers.trainer")
MISSING = "There were missing keys in the checkpoint model loaded: [%r]."


def talk() -> None:
    warnings.warn("`is_gradient_checkpointing` is deprecated and will be removed", FutureWarning, stacklevel=1)
    warnings.warn("`gradient_checkpointing_disable` is deprecated", FutureWarning, stacklevel=1)
    warnings.warn("`other` is deprecated", FutureWarning, stacklevel=1)
    CHECKPOINTS.warning("mtime may not be reliable on this filesystem")
    CHECKPOINTS.warning("the disk is full")
    TRAINER.warning(MISSING, "lm_head.weight")
    TRAINER.warning(MISSING, "model.norm.weight")
    assert not transformers_logging.is_progress_bar_enabled()


def test_known_notices_are_dropped_and_all_else_comes_through(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.warns() as seen, quiet_libraries():
        talk()
    assert [str(warning.message) for warning in seen] == ["`other` is deprecated"]
    assert caplog.messages == ["the disk is full", MISSING % "model.norm.weight"]


def test_everything_is_as_before_afterwards() -> None:
    before = transformers_logging.is_progress_bar_enabled(), list(TRAINER.filters), list(warnings.filters)
    with pytest.raises(RuntimeError, match="stopped"), quiet_libraries():
        raise RuntimeError("stopped")
    after = transformers_logging.is_progress_bar_enabled(), list(TRAINER.filters), list(warnings.filters)
    assert before == after
