"""Only what a user can do nothing about is kept from them."""

import logging
import warnings

import pytest
from tests.support.models.chat_models import chat_model, chat_tokenizer
from transformers.utils import logging as transformers_logging

from openenv.train.quiet import quiet_about_tied_weights, quiet_libraries

CHECKPOINTS = logging.getLogger("transformers.trainer_utils")
REWARDS = logging.getLogger("trl.trainer.grpo_trainer")
TRAINER = logging.getLogger("transformers.trainer")


def talk() -> None:
    warnings.warn("`is_gradient_checkpointing` is deprecated and will be removed", FutureWarning, stacklevel=1)
    warnings.warn("`gradient_checkpointing_disable` is deprecated", FutureWarning, stacklevel=1)
    warnings.warn("`other` is deprecated", FutureWarning, stacklevel=1)
    CHECKPOINTS.warning("mtime may not be reliable on this filesystem")
    CHECKPOINTS.warning("the disk is full")
    REWARDS.warning("All reward functions returned None for the following kwargs: %s", {"failure": "judge"})
    REWARDS.warning("a reward is missing")
    assert not transformers_logging.is_progress_bar_enabled()


def test_known_notices_are_dropped_and_all_else_comes_through(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.warns() as seen, quiet_libraries():
        talk()
    assert [str(warning.message) for warning in seen] == ["`other` is deprecated"]
    assert caplog.messages == ["the disk is full", "a reward is missing"]


def switches() -> list[object]:
    bars = transformers_logging.is_progress_bar_enabled()
    return [bars, CHECKPOINTS.filters[:], REWARDS.filters[:], warnings.filters[:]]


def test_everything_is_as_before_afterwards() -> None:
    before = (
        transformers_logging.is_progress_bar_enabled(),
        CHECKPOINTS.filters[:],
        REWARDS.filters[:],
        warnings.filters[:],
    )
    with pytest.raises(RuntimeError, match="stopped"), quiet_libraries():
        raise RuntimeError("stopped")
    after = (
        transformers_logging.is_progress_bar_enabled(),
        CHECKPOINTS.filters[:],
        REWARDS.filters[:],
        warnings.filters[:],
    )
    assert before == after


@pytest.mark.parametrize(
    ("tied", "said"), [(True, ["model.norm.weight"]), (False, ["lm_head.weight", "model.norm.weight"])]
)
def test_only_an_output_layer_that_is_the_embedding_may_be_missing(
    caplog: pytest.LogCaptureFixture, tied: bool, said: list[str]
) -> None:
    model = chat_model(chat_tokenizer())
    model.config.tie_word_embeddings = tied
    with quiet_about_tied_weights(model):
        for key in ("lm_head.weight", "model.norm.weight"):
            TRAINER.warning("There were missing keys in the checkpoint model loaded: %r.", [key])
    assert [message.split("'")[1] for message in caplog.messages] == said
    assert TRAINER.filters == []
