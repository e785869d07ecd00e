"""Episodes as a dataset, and as Parquet, on which TRL trains."""

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, load_dataset  # type: ignore[import-untyped]
from tests.support.stored_episodes import entries, episode, of_a_model, of_an_environment
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from openenv import traces
from openenv.core.exceptions import ConfigurationError
from openenv.traces import Conversation, Filter
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


def tool(name: str, argument: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {argument: {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": parameters}}


def test_dpo_trainer_takes_preference_pairs(tmp_path: Path) -> None:
    tools = [tool("guess", "word"), tool("hint", "letter")]
    with traces.open(tmp_path / "pairs.db", create=True) as file:
        for number, (name, arguments) in enumerate([("guess", {"word": "mouse"}), ("hint", {"letter": "m"})]):
            call = {"id": "call00001", "type": "function", "function": {"name": name, "arguments": arguments}}
            messages = [
                {"role": "user", "content": "Which word?"},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call00001", "name": name, "content": "well"},
            ]
            record = Conversation(f"e{number}", messages=messages, tools=tools)
            file.add(episode(number, seed="7", reward=1.0 - number), entries(), [record])
        pairs = list(traces.preference_pairs(file, min_spread=0.5))
    dataset = Dataset.from_list(pairs, on_mixed_types="use_json")
    tokenizer = build_tool_tokenizer(tools, ["Which word?", "well"], values=["mouse", "m"])
    settings: dict[str, Any] = {"max_steps": 1, "use_cpu": True, "report_to": "none", "save_strategy": "no"}
    with quiet_libraries():
        model, reference = build_model(tokenizer), build_model(tokenizer)
        config = DPOConfig(output_dir=str(tmp_path / "out"), learning_rate=0.01, **settings)
        trainer = DPOTrainer(model, reference, config, train_dataset=dataset, processing_class=tokenizer)
        before = [each.detach().clone() for each in model.parameters()]
        loss = trainer.train().training_loss
    prepared: Any = trainer.train_dataset
    (row,) = prepared
    assert '{"name": "guess", "arguments": {"word": "mouse"}}' in tokenizer.decode(row["chosen_ids"])
    assert '{"name": "hint", "arguments": {"letter": "m"}}' in tokenizer.decode(row["rejected_ids"])
    assert loss > 0
    assert any(not torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
