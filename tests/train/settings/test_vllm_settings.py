"""The section ``vllm`` of a run's settings, and whole runs with it: the tiny chat model is where vLLM would be."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.models.chat_models import save_chat_model
from tests.support.models.model_server import ModelServer
from tests.support.models.served_model import ServedModel
from tests.support.models.trainers import ColocatedModel, vllm_installed
from tests.support.servers import RunningServer
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl.generation import vllm_client, vllm_generation
from trl.trainer.grpo_config import GRPOConfig

from openenv.core.exceptions import ConfigurationError, ConnectionFailedError
from openenv.train.run.training import TrainResult, resume, train
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.vllm_settings import VllmSettings

NOBODY = "http://127.0.0.1:9"
"""Where no server listens."""
SERVER = {"mode": "server", "server_base_url": "http://localhost:8000"}


def test_trl_knows_every_setting_and_what_is_left_out_is_trl_s() -> None:
    own = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
    for name, field in VllmSettings.model_fields.items():
        assert field.description
        assert field.default in (None, own[f"vllm_{name}"]), name
    assert VllmSettings().arguments() == {
        "use_vllm": True,
        "vllm_mode": "colocate",
        **{name: own[name] for name in own if name.startswith("vllm_importance_sampling_") and own[name] is not None},
    }


def test_what_is_set_reaches_trl() -> None:
    server = VllmSettings.model_validate({**SERVER, "server_timeout": 5, "group_port": 51217})
    told = server.arguments()
    assert (told["use_vllm"], told["vllm_mode"]) == (True, "server")
    assert told["vllm_server_base_url"] == "http://localhost:8000"
    assert (told["vllm_server_timeout"], told["vllm_group_port"]) == (5, 51217)
    beside = VllmSettings(gpu_memory_utilization=0.5, max_model_length=5000, importance_sampling_clip_max=2)
    told = beside.arguments()
    assert (told["vllm_gpu_memory_utilization"], told["vllm_max_model_length"]) == (0.5, 5000)
    assert told["vllm_importance_sampling_clip_max"] == 2


@pytest.mark.parametrize("section", [{}, SERVER, {"gpu_memory_utilization": 0.4, "enable_sleep_mode": True}])
def test_the_section_survives_the_file(section: dict[str, Any], tmp_path: Path) -> None:
    config = load_config(environment="catch", model="a/b", vllm=section)
    config.save(tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (True, "vllm: Input should be a valid dictionary.*; got True"),
        ({"mod": "server"}, r"there is no setting 'vllm\.mod'; did you mean 'vllm\.mode'\?"),
        ({"mode": "cloud"}, r"vllm\.mode: Input should be 'colocate' or 'server'; got 'cloud'"),
        ({"mode": "server"}, "vllm: mode server needs server_base_url, the address of vllm serve"),
        ({**SERVER, "server_base_url": "localhost:8000"}, r"server_base_url: expected an address .*'localhost:8000'"),
        ({**SERVER, "server_base_url": "http://:8000"}, r"server_base_url: expected an address .*'http://:8000'"),
        ({**SERVER, "server_base_url": "http://a:b"}, r"server_base_url: expected an address .*'http://a:b'"),
        ({**SERVER, "server_timeout": 0}, r"vllm\.server_timeout: Input should be greater than 0; got 0"),
        ({**SERVER, "gpu_memory_utilization": 0.4}, "gpu_memory_utilization is not for mode server; give it to vllm"),
        ({"server_base_url": "http://a"}, "server_base_url is not for mode colocate; set mode: server, or leave it"),
        ({"gpu_memory_utilization": 2}, r"vllm\.gpu_memory_utilization: .*less than or equal to 1; got 2"),
        ({"tensor_parallel_size": 2}, "tensor_parallel_size must be 1, not 2; for more GPUs set mode: server"),
        ({"max_model_length": 100}, r"vllm\.max_model_length \(100\) must be at least max_context \(4096\)"),
    ],
)
def test_faults_are_told(section: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_config(environment="catch", model="a/b", vllm=section)


def test_the_tiny_policy_is_not_for_vllm() -> None:
    with pytest.raises(ConfigurationError, match="vllm needs a pretrained model, and model is 'tiny'"):
        load_config(environment="catch", vllm={})


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_chat_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def settings(stairs_server: RunningServer, model: str, tmp_path: Path) -> dict[str, Any]:
    """A small run's; only ``vllm`` is missing."""
    return {
        "environment": stairs_server.url,
        "output_dir": tmp_path / "runs",
        "name": "run",
        "model": model,
        "steps": 2,
        "rollouts": 8,
        "group_size": 4,
        "micro_batch": 4,
        "learning_rate": 1e-3,
        "max_turns": 3,
        "max_action_tokens": 3,
        "max_context": 600,
        "eval_episodes": 4,
        "checkpoint_every": 1,
        "fallback": "up",
        "threads": 1,
    }


class Vllm:
    """Where vLLM would be: the same model as the trainer's, with the weights that it was sent last.

    Attributes:
        server: What was asked of it as a server.
        url: Its address as a server.
        colocated: What it was made with in the trainer's process, each time.
        updates: How often it got weights.
    """

    def __init__(self, model: str, max_context: int) -> None:
        self._served = ServedModel(
            AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model), max_context
        )
        self.server = ModelServer(self._served, self._served)
        self.url = ""
        self.colocated: list[dict[str, Any]] = []
        self.updates = 0

    def beside(self, **settings: Any) -> ColocatedModel:
        self.colocated.append(settings)
        return ColocatedModel(self._served)

    def update(self, trained: Any) -> None:
        self._served.model.load_state_dict(trained.state_dict())
        self.updates += 1

    @contextmanager
    def running(self, patch: pytest.MonkeyPatch, folder: Path) -> Iterator["Vllm"]:
        """Let TRL and the run believe that vLLM is installed, and serve it."""
        package = folder / "installed" / "vllm"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        with vllm_installed(patch, self._served), patch.context() as patched, RunningServer(self.server.app) as running:
            patched.syspath_prepend(package.parent)
            patched.setattr(vllm_generation, "LLM", self.beside, raising=False)
            patched.setattr(vllm_generation.VLLMGeneration, "sync_weights", lambda trl: self.update(trl.model))
            self.url = running.url
            yield self


@pytest.fixture
def vllm(model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Vllm]:
    with Vllm(model, 600).running(monkeypatch, tmp_path) as made:
        yield made


def section(vllm: Vllm, mode: str) -> dict[str, Any]:
    return {"mode": "server", "server_base_url": vllm.url} if mode == "server" else {"gpu_memory_utilization": 0.5}


def assert_written_by_vllm(result: TrainResult, steps: int) -> None:
    rows = result.folder.read_metrics()
    assert [row["step"] for row in rows] == list(range(1, steps + 1))
    # TRL compares the log-probabilities that came with the answers with those of its own forward pass: in the second
    # step they agree only if vLLM got the new weights.
    assert all(row["sampling/sampling_logp_difference/max"] < 1e-3 for row in rows)
    assert all(row["episode/length"] >= 1 for row in rows)


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_vllm_writes_the_answers_in_training(vllm: Vllm, settings: dict[str, Any], mode: str) -> None:
    result = train(TrainConfig(**settings, vllm=section(vllm, mode)), quiet())
    assert_written_by_vllm(result, 2)
    assert vllm.updates == 2
    if mode == "server":
        assert not vllm.colocated
        assert len(vllm.server.requests) >= 2
        assert {request["temperature"] for request in vllm.server.requests} == {1.0}
    else:
        assert not vllm.server.requests
        (made,) = vllm.colocated
        assert (made["gpu_memory_utilization"], made["model"]) == (0.5, settings["model"])


def test_vllm_writes_the_answers_in_each_of_several_environments(vllm: Vllm, settings: dict[str, Any]) -> None:
    url = settings.pop("environment")
    fallback = settings.pop("fallback")
    several = {name: {"environment": url, "fallback": fallback} for name in ("one", "other")}
    result = train(TrainConfig(**settings, environments=several, vllm=section(vllm, "colocate")), quiet())
    assert_written_by_vllm(result, 2)
    assert all(row["episode/other/length"] >= 1 for row in result.folder.read_metrics())


class Interruption(TrainerCallback):
    """Stops the process, as Ctrl-C does, after the first step."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 2:
            raise KeyboardInterrupt


def test_an_interrupted_run_goes_on(vllm: Vllm, settings: dict[str, Any]) -> None:
    config = TrainConfig(**settings | {"steps": 3}, vllm=section(vllm, "server"))
    with pytest.raises(KeyboardInterrupt):
        train(config, quiet(), [Interruption()])
    result = resume(config.output_dir / "run", quiet())
    assert result.steps == 2
    assert_written_by_vllm(result, 3)


def test_without_vllm_nothing_is_started(settings: dict[str, Any]) -> None:
    config = TrainConfig(**settings | {"environment": NOBODY}, vllm={})
    with pytest.raises(ConfigurationError, match=r'vLLM is not installed. Install it with pip install "trl\[vllm\]"'):
        train(config, quiet())
    assert not config.output_dir.exists()


def test_a_warm_up_alone_needs_no_vllm(settings: dict[str, Any]) -> None:
    url = NOBODY
    with pytest.raises(ConnectionFailedError):
        train(TrainConfig(**settings | {"environment": url, "grpo": False, "sft": 1}, vllm={}), quiet())


def test_a_server_that_is_not_there_is_told(vllm: Vllm, settings: dict[str, Any]) -> None:
    url = NOBODY
    asked = {"mode": "server", "server_base_url": url, "server_timeout": 0.01}
    with pytest.raises(ConnectionFailedError, match=f"vllm: The vLLM server can't be reached at {url}"):
        train(TrainConfig(**settings, vllm=asked), quiet())


@pytest.mark.parametrize("kind", ["no development", "no GPU"])
def test_a_server_that_takes_no_weights_is_told(
    vllm: Vllm, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def refuse(self: Any, device: Any) -> None:
        raise NotImplementedError("needs a CUDA device") if kind == "no GPU" else RuntimeError("The vLLM server at x")

    monkeypatch.setattr(vllm_client.VLLMClient, "init_communicator", refuse)
    with pytest.raises(ConfigurationError, match=r"^vllm: (The vLLM server at x|needs a CUDA device)"):
        train(TrainConfig(**settings, vllm=section(vllm, "server")), quiet())


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_a_context_too_small_for_the_run_is_told(vllm: Vllm, settings: dict[str, Any], mode: str) -> None:
    config = TrainConfig(**settings | {"max_context": 601}, vllm=section(vllm, mode))
    with pytest.raises(ConfigurationError, match="max_context is 601, and vLLM has room for 600 tokens"):
        train(config, quiet())
