"""Files of models are looked at without torch: whether they are whole, and how large."""

from pathlib import Path

import pytest
from tests.support.models.chat_models import chat_model, chat_tokenizer, save_chat_model
from tests.train.test_models import write_gguf

from openenv.core.exceptions import ConfigurationError
from openenv.train.model_files import chat_template_of, check_gguf, check_model_folder, parameters_of


def test_a_saved_model_is_whole_and_its_weights_are_counted(tmp_path: Path) -> None:
    folder = Path(save_chat_model(tmp_path / "chat"))
    check_model_folder(folder)
    model = chat_model(chat_tokenizer())
    assert parameters_of(folder) == sum(weights.numel() for weights in model.parameters())
    template = chat_template_of(folder)
    assert template is not None
    assert "messages" in template


@pytest.mark.parametrize("missing", [1, 200, 1000])
def test_a_gguf_file_that_is_cut_off_is_told(tmp_path: Path, missing: int) -> None:
    file = tmp_path / "model.gguf"
    weights = write_gguf(file)
    assert check_gguf(file) == parameters_of(file) == sum(values.size for values in weights.values())
    content = file.read_bytes()
    file.write_bytes(content[:-missing])
    with pytest.raises(ConfigurationError, match=f"is cut off: it has {len(content) - missing:,} bytes of "):
        check_gguf(file)


@pytest.mark.parametrize("kept", [4, 20, 24, 60, 400])
def test_a_gguf_file_that_ends_in_its_header_is_told(tmp_path: Path, kept: int) -> None:
    file = tmp_path / "model.gguf"
    write_gguf(file)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ConfigurationError, match="is no GGUF file that can be read, or is cut off"):
        check_gguf(file)
