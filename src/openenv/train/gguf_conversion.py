"""``python -m openenv.train.gguf_conversion FILE FOLDER``: load a GGUF file, and save it as ``transformers`` does."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

__all__ = ["convert"]


def convert(file: Path, folder: Path) -> None:
    """Convert a file; see `openenv.train.models.convert_gguf`."""
    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
    dequantised = GgufConfig(dequantize=True)  # quantised weights can't be saved
    model = AutoModelForCausalLM.from_pretrained(**source, quantization_config=dequantised, dtype=torch.float32)
    model.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
