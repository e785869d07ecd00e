"""Episodes as a dataset, and as Parquet, on which TRL trains."""

from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset  # type: ignore[import-untyped]
from tests.support.stored_episodes import of_a_model, of_an_environment
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from openenv import traces
from openenv.core.exceptions import ConfigurationError
from openenv.traces import Filter
from openenv.train.agents.tiny import build_model
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.quiet import quiet_libraries


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "traces.db"
    with traces.open(path, create=True) as opened:
        for record in (of_an_environment(), of_a_model(), of_a_model()):
            opened.add(record.episode, record.entries, record.conversations)
    return path


def test_sft_trainer_takes_the_parquet_file_as_it_is(file: Path, tmp_path: Path) -> None:
    assert traces.export(file, tmp_path / "rows.parquet", "parquet") == 3
    dataset = load_dataset(
        "parquet", data_files=str(tmp_path / "rows.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    with traces.open(file) as opened:
        rows = [traces.row_of(record) for record in opened.records()]
    assert list(dataset) == rows
    texts = [message["content"] for row in rows for message in row["messages"]]
    tokenizer = build_tool_tokenizer(rows[0]["tools"], texts, values=["mouse"])
    settings: dict[str, Any] = {"max_steps": 1, "use_cpu": True, "report_to": "none", "save_strategy": "no"}
    with quiet_libraries():
        arguments = SFTConfig(output_dir=str(tmp_path / "out"), **settings)
        trainer = SFTTrainer(build_model(tokenizer), args=arguments, train_dataset=dataset, processing_class=tokenizer)
        loss = trainer.train().training_loss
    prepared: Any = trainer.train_dataset
    assert '{"name": "guess", "arguments": {' in tokenizer.decode(prepared[0]["input_ids"])
    assert loss > 0


def test_a_dataset_has_the_episodes_that_pass_the_filter(file: Path, tmp_path: Path) -> None:
    dataset = traces.dataset(file, Filter(environment="counter"), cache_dir=tmp_path / "cache")
    assert dataset["environment"][:] == ["counter"]
    assert dataset[0]["components"] == {"right": 1.0, "short": 0.5}
    assert len(traces.dataset(file, limit=2, cache_dir=tmp_path / "cache")) == 2
    with pytest.raises(ConfigurationError, match="that pass the filter, found none"):
        traces.dataset(file, Filter(min_reward=9.0))
