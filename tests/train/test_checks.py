"""What would fail after minutes is refused before: without the libraries of training, and nothing is left."""

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse
from huggingface_hub import constants
from tests.support.models.chat_models import CHATML
from tests.support.models.model_server import ScriptedModel, climb
from tests.support.public_folders import PUBLIC_FOLDERS
from tests.support.servers import RunningServer

from openenv._extras import install_command
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, OpenEnvError
from openenv.train import checks
from openenv.train.checks import (
    TRACKERS,
    check_memory,
    check_model,
    check_play,
    check_resumed,
    check_trackers,
    check_training,
)
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.play_settings import PlaySettings

MISTAKES = {
    "train catchh": "No environment is called 'catchh'. Did you mean catch?",
    "train catch --model tinny": "There is no model 'tinny'. Expected 'tiny'",
    "train catch --model ./no-such-folder": "There is no model './no-such-folder'",
    "train catch --model ./cut": "cut/model.safetensors is cut off: it has ",
    "train catch --model ./notes.txt": "Expected the folder of a language model or a GGUF file, got the file ./notes",
    "train catch --model ./vast": "The run needs ",
    "train catch --report-to wandbb": "report_to wandbb: expected one of azure_ml, ",
    "train catch --report-to comet_ml": "report_to comet_ml: its package is not installed. Install it, as with pip",
    "train catch --tasks none.jsonl": "The tasks can't be read from",
    "train catch --tasks train": "The environment lists no tasks",
    "train catch --sft nowhere": "There is no nowhere to learn from",
    "train --resume nowhere": "nowhere is no run's folder",
    "eval catchh --model run": "No environment is called 'catchh'. Did you mean catch?",
    "eval catch --model ./no-such-folder": "There is no folder ./no-such-folder, and it is no id of a model on the Hub",
    "eval catch --model ./cut": "cut/model.safetensors is cut off: it has ",
    "eval catch --model ./begun": "The run in begun has not ended, so there is no model in it yet.",
    "eval catch --model m --llm-endpoint http://127.0.0.1:1": "There is no answer from http://127.0.0.1:1/v1: ",
    "collect catch --model m --llm-endpoint http://127.0.0.1:1 --output data": "There is no answer from http://127.0",
    "train catch --model an/owner": "an/owner is no folder here and is not in the cache",
    "eval catch --model an/owner": "an/owner is no folder here and is not in the cache",
    "collect catch --model an/owner --output data": "an/owner is no folder here and is not in the cache",
}
PROGRAM = """
import sys
from typer.testing import CliRunner
from openenv.cli.__main__ import build_app
for line in sys.argv[1:]:
    ended = CliRunner().invoke(build_app(), line.split())
    assert ended.exit_code == 2, (line, ended.output)
    print(ended.output.strip().removeprefix("Error: "))
print([name for name in ("torch", "transformers", "trl", "datasets") if name in sys.modules])
"""


def save_model(folder: Path, *, weights: int = 4, missing_bytes: int = 0, without: str = "") -> Path:
    """Write the files of a model that has weights of one byte each, which take no room on the disk."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    (folder / "tokenizer.json").write_text("{}")
    header = json.dumps({"weight": {"dtype": "I8", "shape": [weights], "data_offsets": [0, weights]}}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + weights - missing_bytes)
    if without:
        (folder / without).unlink()
    return folder


def test_mistakes_are_refused_before_torch_is_loaded_and_leave_nothing(tmp_path: Path) -> None:
    save_model(tmp_path / "run" / "model")
    (tmp_path / "begun").mkdir()
    for run in ("run", "begun"):
        load_config(environment="catch").save(tmp_path / run / "config.yaml")
    (tmp_path / "notes.txt").write_text("Not a model.")
    save_model(tmp_path / "cut", missing_bytes=1)
    save_model(tmp_path / "vast", weights=10**12)
    before = sorted(tmp_path.rglob("*"))
    command = [sys.executable, "-c", PROGRAM, *MISTAKES]
    environ = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:1", "HF_HOME": str(tmp_path / "run")}
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, env=environ)
    assert ended.returncode == 0, ended.stderr
    *messages, loaded = ended.stdout.splitlines()
    assert loaded == "[]"
    for message, beginning in zip(messages, MISTAKES.values(), strict=True):
        assert message.startswith(beginning)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_library_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda name: None if name in ("trl", "torch") else name)
    with pytest.raises(ConfigurationError) as refused:
        check_training(TrainConfig(environment="catch"))
    assert str(refused.value) == f"Training needs torch, trl: {install_command('train')}"


@pytest.mark.parametrize(
    ("folder", "fault"),
    [
        ({"without": "config.json"}, "no config.json"),
        ({"without": "tokenizer.json"}, "no tokenizer, such as tokenizer.json"),
        ({"without": "model.safetensors"}, "no weights, model.safetensors or pytorch_model.bin"),
        ({"missing_bytes": 1}, "is cut off: it has"),
    ],
)
def test_a_model_folder_that_lacks_a_file(tmp_path: Path, folder: dict[str, Any], fault: str) -> None:
    path = save_model(tmp_path / "model", **folder)
    with pytest.raises(ConfigurationError, match=fault):
        check_model(str(path))
    with pytest.raises(ConfigurationError, match=fault):
        check_play(PlaySettings(environment="catch", model=str(path)))


def test_a_shard_that_the_index_names_has_to_be_there(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "one.safetensors")
    names = {"a": "one.safetensors", "b": "two.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    with pytest.raises(ConfigurationError, match=r"no two\.safetensors, which its index of weights names"):
        check_model(str(folder))
    (folder / "two.safetensors").write_bytes((folder / "one.safetensors").read_bytes())
    check_model(str(folder))


def test_models_that_may_be_there_are_let_through() -> None:
    check_model("tiny")
    check_model("smollm2")
    with pytest.raises(ConfigurationError, match="There is no model 'a model/of mine'"):
        check_model("a model/of mine")


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@contextmanager
def black_hole() -> Iterator[int]:
    """A port whose queue of connections is full, so that no further one is answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as queue:
        for _ in range(3):
            client = queue.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@contextmanager
def silent() -> Iterator[int]:
    """A port that accepts connections, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@contextmanager
def refusing() -> Iterator[int]:
    """A port without a server."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@contextmanager
def welcoming() -> Iterator[int]:
    """A port whose server has one page for every path, as networks that want a login have."""
    app = FastAPI()
    app.get("/{path:path}")(lambda: HTMLResponse("<html>Welcome</html>"))
    with RunningServer(app) as server:
        yield server.port


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("hub", [refusing, silent, black_hole, welcoming])
def test_a_hub_that_gives_no_answer_is_not_waited_for(
    hub: Callable[[], AbstractContextManager[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The libraries that load models wait for 47 s."""
    found = socket.getaddrinfo("127.0.0.1", 0, type=socket.SOCK_STREAM)
    with hub() as port:
        # The Hub has several addresses, each of which is tried for as long as the first.
        addresses = [(*each[:4], ("127.0.0.1", port)) for each in found] * 40
        monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **options: addresses)
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
        began = time.monotonic()
        with pytest.raises(ConnectionFailedError, match=rf"is not in the cache .* from http://127\.0\.0\.1:{port} "):
            check_model("an/owner")
        assert time.monotonic() - began < 20


@pytest.mark.usefixtures("no_cache")
def test_a_slow_hub_may_be_given_more_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FastAPI()

    @app.get("/api/models/{name:path}")
    async def model(name: str) -> dict[str, str]:
        await asyncio.sleep(2)
        return {"id": name}

    with RunningServer(app) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "60")
        check_model("an/owner")
        monkeypatch.delenv("HF_HUB_ETAG_TIMEOUT")
        with pytest.raises(ConnectionFailedError, match=r"within 1\.5 s.*more seconds with HF_HUB_ETAG_TIMEOUT"):
            check_model("an/owner")


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize(("status", "is_refused"), [(401, True), (404, True), (429, False), (503, False)])
def test_other_answers_of_a_hub(status: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one that is busy the libraries wait."""
    app = FastAPI()
    reason = {"X-Error-Code": "RepoNotFound"} if is_refused else {}
    app.get("/api/models/{name:path}")(lambda: JSONResponse({}, status, reason))
    with RunningServer(app) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        with pytest.raises(ConfigurationError, match="There is no model") if is_refused else nullcontext():
            check_model("an/owner")


def test_a_model_in_the_cache_needs_no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    stored = tmp_path / "models--an--owner"
    (stored / "refs").mkdir(parents=True)
    (stored / "refs" / "main").write_text("abc")
    (stored / "snapshots" / "abc").mkdir(parents=True)
    (stored / "snapshots" / "abc" / "config.json").write_text("{}")
    check_model("an/owner")


def test_a_disk_holds_the_checkpoints_or_the_run_is_refused(tmp_path: Path) -> None:
    vast = str(save_model(tmp_path / "vast", weights=10**12))
    settings: dict[str, Any] = {"environment": "catch", "model": vast, "output_dir": tmp_path / "not" / "yet"}
    with pytest.raises(ConfigurationError, match=r"needs 40,000\.0 GB .* has 12,000\.0 GB\. .*: --lora\.$"):
        check_training(TrainConfig(**settings))
    with pytest.raises(ConfigurationError, match=r"has 480\.0 GB\. .*--checkpoints-kept\.$"):
        check_training(TrainConfig(**settings, lora={}))
    check_training(TrainConfig(**{**settings, "model": str(save_model(tmp_path / "small"))}))
    assert not (tmp_path / "not").exists()


def test_a_model_fits_into_the_free_memory_or_the_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "free_memory", lambda: 3 * 10**9)
    large = str(save_model(tmp_path / "large", weights=2 * 10**8))
    settings: dict[str, Any] = {"environment": "catch", "model": large, "steps": 1, "device": "cpu"}
    with pytest.raises(
        ConfigurationError, match=r"needs 3\.9 GB of memory without any episode, and 3\.0 GB .*: --lora\."
    ):
        check_memory(TrainConfig(**settings))
    check_memory(TrainConfig(**settings, lora={}))
    check_memory(TrainConfig(**{**settings, "model": "tiny"}))
    check_memory(TrainConfig(**{**settings, "model": "of/the-hub"}))


def test_trackers_are_those_of_transformers() -> None:
    integrations = pytest.importorskip("transformers.integrations.integration_utils")
    assert integrations.INTEGRATION_TO_CALLBACK.keys() == TRACKERS.keys()
    check_trackers(TrainConfig(environment="catch", report_to=["all", "none", "kubeflow"]))
    with pytest.raises(ConfigurationError, match=r"report_to WandB: expected one of .*\. Did you mean 'wandb'\?"):
        check_trackers(TrainConfig(environment="catch", report_to=["WandB"]))


REFUSALS = [
    (400, "m does not support tools"),  # Ollama
    (400, '"auto" tool choice requires --enable-auto-tool-choice'),  # vLLM
    (500, "tools param requires --jinja flag"),  # llama.cpp
    (404, "No endpoints found that support tool use."),  # OpenRouter
]


def answering(status: int, message: str) -> FastAPI:
    app = FastAPI()
    app.post("/v1/chat/completions")(lambda: JSONResponse({"error": {"message": message}}, status))
    return app


@pytest.mark.parametrize(("status", "message"), REFUSALS)
def test_an_endpoint_that_takes_no_tools(status: int, message: str) -> None:
    with RunningServer(answering(status, message)) as server:
        played = {"environment": "catch", "model": "m", "llm_endpoint": f"{server.url}/v1"}
        with pytest.raises(ConfigurationError, match=r"takes no tools: .*take another model, or let actions be texts"):
            check_play(PlaySettings(**played))
        check_play(PlaySettings(**played, form="text"))


@pytest.mark.parametrize(("status", "is_refused"), [(401, True), (403, True), (404, True), (400, False), (503, False)])
def test_other_answers_of_an_endpoint(status: int, is_refused: bool) -> None:
    """What a server may have against this request alone is no reason to refuse all."""
    with RunningServer(answering(status, "not so")) as server:
        settings = PlaySettings(environment="catch", model="m", llm_endpoint=f"{server.url}/v1")
        if is_refused:
            with pytest.raises(ConfigurationError, match=f"answers {status}: .*not so"):
                check_play(settings)
        else:
            check_play(settings)


def test_an_endpoint_that_takes_tools_gets_one_short_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    scripted = ScriptedModel(climb)
    with scripted.server:
        check_play(PlaySettings(environment="catch", model="climber", llm_endpoint=scripted.url))
        with pytest.raises(ConfigurationError, match="The model other does not exist"):
            check_play(PlaySettings(environment="catch", model="other", llm_endpoint=scripted.url))
    assert [(body["model"], body["max_tokens"]) for body in scripted.requests] == [("climber", 1), ("other", 1)]
    assert scripted.keys == {"a-key"}
    with pytest.raises(ConnectionFailedError, match="There is no answer from"):
        check_play(PlaySettings(environment="catch", model="climber", llm_endpoint=scripted.url))


def test_a_server_is_asked_for_its_schema_alone(stairs_server: RunningServer, tmp_path: Path) -> None:
    """Its sessions are all free for the run."""
    check_training(TrainConfig(environment=stairs_server.url))
    with pytest.raises(OpenEnvError, match="Connection refused"):
        check_training(TrainConfig(environment="http://127.0.0.1:1"))
    TrainConfig(environment="no_such_environment").save(tmp_path / "config.yaml")
    with pytest.raises(OpenEnvError, match="No environment is called 'no_such_environment'"):
        check_resumed(tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"environment": "terminal", "sft": "nowhere"}, "There is no nowhere to learn from"),
        ({"environment": "gymnasium:CartPole-v1", "sft": 8}, "gymnasium:CartPole-v1 has no scripted player"),
        ({"environment": "http://localhost:9", "sft": 8}, "localhost has no scripted player"),
    ],
)
def test_examples_that_are_not_there(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        checks.check_examples(load_config(**given))


@pytest.mark.parametrize("given", [{"environment": "catch"}, {"environment": "catch", "sft": 8}])
def test_examples_that_are_there_or_not_needed(given: dict[str, Any]) -> None:
    checks.check_examples(load_config(**given))


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment that has tools and no other actions."""
    make: Callable[[Path], Path] = PUBLIC_FOLDERS["notes_env"]
    return str(make(tmp_path_factory.mktemp("environments")))


def test_a_model_whose_template_knows_no_tools_is_refused_where_there_is_nothing_else(
    notes: str, tmp_path: Path
) -> None:
    folder = save_model(tmp_path / "model")
    config = load_config(environment=notes, model=str(folder))
    checks.check_calls(config)  # it may have none in its files
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    with pytest.raises(ConfigurationError, match=r"does not know tools\. Take a model that calls tools, or put"):
        checks.check_calls(config)
    (folder / "chat_template.jinja").write_text("{{ messages }}{{ tools }}")
    checks.check_calls(config)
    (folder / "chat_template.jinja").write_text(CHATML)  # which one with tools replaces
    checks.check_calls(config)


def test_settings_that_name_calls_are_checked_as_environments_of_tools_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"never writes a whole call\. Let it learn calls first: --sft N"):
        checks.check_calls(load_config(environment="catch", form="tools"))
    folder = save_model(tmp_path / "model")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    with pytest.raises(ConfigurationError, match=r"the chat template of .* does not know tools"):
        checks.check_calls(load_config(environment="catch", model=str(folder), form="tools"))
    checks.check_calls(load_config(environment="catch", model=str(folder)))


@pytest.mark.level("process")
def test_a_tiny_policy_has_to_learn_calls_first(notes: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--sft N takes episodes of the scripted player"):
        check_training(load_config(environment=notes))
    program = (
        "import sys\nfrom openenv.cli.__main__ import main\n"
        "try:\n    main()\nfinally:\n    assert not {'torch', 'transformers', 'trl'} & set(sys.modules)"
    )
    work = tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-c", program, "train", notes]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=work)
    assert ended.returncode == 2
    assert "Let it learn calls first: --sft N" in ended.stderr
    assert "AssertionError" not in ended.stderr
    assert not any(work.iterdir())
