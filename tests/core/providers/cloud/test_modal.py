"""Servers in sandboxes of Modal, by the real SDK: its API is a fake on this machine, the server a real one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import modal
import pytest
from grpclib.const import Status
from tests.support.cloud_programs import idle_providers, interrupt, make_without, start_and_end
from tests.support.services.modal_cloud import (
    BARE_IMAGE,
    BROKEN_IMAGE,
    GOOD_IMAGE,
    TOKEN,
    FakeModal,
    Fault,
    serving_modal,
)

from openenv import GenericEnvClient
from openenv._extras import install_command
from openenv.core.containers.runtime.modal_provider import ModalProvider
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerUnauthorizedError
from openenv.core.providers.cloud.sandbox import Sandbox

Idle = Callable[..., ModalProvider]

MODULE, NAME = "modal_provider", "ModalProvider"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeModal]:
    # One for all tests, as the SDK has one connection for the whole process.
    with serving_modal(tmp_path_factory.mktemp("modal")) as service, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODAL_SERVER_URL", service.url)
        patch.setenv("MODAL_TOKEN_ID", TOKEN[0])
        patch.setenv("MODAL_TOKEN_SECRET", TOKEN[1])
        yield service
        modal.Client.from_env().close()


@pytest.fixture
def cloud(service: FakeModal, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeModal]:
    monkeypatch.setenv("SSL_CERT_FILE", str(service.authority))
    monkeypatch.setattr(Sandbox, "appears_within_s", 0.0)
    yield service
    service.reset()


@pytest.fixture
def idle(cloud: FakeModal) -> Iterator[Idle]:
    with idle_providers(ModalProvider, image=BARE_IMAGE) as make:
        yield make


def test_a_client_plays_in_a_sandbox_of_its_own(cloud: FakeModal) -> None:
    provider = ModalProvider(
        image=GOOD_IMAGE, env_vars={"GREETING": "hi"}, secrets={"API_PASSWORD": "it's secret"}, use_sandbox_v2=True
    )
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        assert client.step({"message": "hello"}).reward == 0.5
        for token in ("another", ""):  # the tunnel ends on the sandbox's own loopback, which is no reason to trust it
            with pytest.raises(ServerUnauthorizedError):
                GenericEnvClient(provider.base_url, token=token).sync().reset()
        assert provider.base_url.startswith("https://localhost:")
        assert cloud.only.variables == {"GREETING": "hi"}
        assert cloud.only.definition.name == provider.sandbox_name
        assert provider.token
        made = str([call for call in cloud.calls if call[0] != "TaskExecStart"])
        assert not [secret for secret in ("it's secret", provider.token) if secret in made]
    assert cloud.running == []
    assert provider.sandbox_name is None


@pytest.mark.parametrize("kind", ["0", "1"])
def test_what_a_sandbox_is_made_of(cloud: FakeModal, idle: Idle, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("MODAL_SANDBOX_V2", kind)
    provider = idle(
        image=None,
        app_name="mine",
        timeout=7200,
        cpu=2,
        memory=4096,
        create_options={"region": "eu"},
    )
    provider.start_container(GOOD_IMAGE, port=8000, env_vars={"A": "b"})
    wanted = cloud.only.definition
    assert cloud.images[wanted.image_id].dockerfile_commands[0] == f"FROM {GOOD_IMAGE}"
    assert (list(wanted.entrypoint_args), wanted.timeout_secs) == (["sleep", "infinity"], 7200)
    # Limits, not what is reserved and billed.
    assert (wanted.resources.milli_cpu, wanted.resources.milli_cpu_max) == (125, 2000)
    assert (wanted.resources.memory_mb, wanted.resources.memory_mb_max) == (128, 4096)
    assert list(wanted.scheduler_placement.regions) == ["eu"]
    assert cloud.only.variables == {"A": "b"}
    assert dict(cloud.calls)["AppGetOrCreate"].app_name == "mine"
    assert ("SandboxCreateV2" in cloud.lines()) == (kind == "1")
    provider.shut_down()
    assert cloud.running == []


def test_an_image_is_built_from_a_dockerfile(cloud: FakeModal, idle: Idle, tmp_path: Path) -> None:
    dockerfile = tmp_path / "my_env" / "server" / "Dockerfile"
    dockerfile.parent.mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="Expected a Dockerfile at"):
        ModalProvider.image_from_dockerfile(dockerfile)
    dockerfile.write_text("FROM python:3.12\nCOPY app.py /app/\n")
    (tmp_path / "my_env" / "app.py").write_text("")
    with pytest.raises(ConfigurationError, match="Expected a folder as context_dir"):
        ModalProvider.image_from_dockerfile(dockerfile, tmp_path / "elsewhere")
    provider = idle(image=ModalProvider.image_from_dockerfile(dockerfile))
    provider.start_container()
    (built,) = [image for image in cloud.images.values() if "COPY app.py /app/" in image.dockerfile_commands]
    assert built.context_mount_id
    provider.shut_down()


def test_an_image_that_cannot_be_built_says_so(cloud: FakeModal, idle: Idle) -> None:
    with pytest.raises(ProviderError, match=r"(?s)Modal can't build the image: .*no such image"):
        idle(image=BROKEN_IMAGE).start_container()
    assert cloud.running == []


def test_a_server_that_ends_tells_why(cloud: FakeModal, idle: Idle) -> None:
    provider = idle(cmd="echo I have $KEY; exit 3", secrets={"KEY": "s3cr3t-value"})
    with pytest.raises(ProviderError, match=r"(?s)exit code 3.*I have \[redacted\]"):
        provider.launch()
    provider = idle(cmd="echo something private; exit 3", surface_server_logs=False)
    with pytest.raises(ProviderError, match="exit code 3") as caught:
        provider.launch()
    assert "private" not in str(caught.value)
    assert cloud.running == []


def test_a_sandbox_that_modal_has_ended_is_reported(cloud: FakeModal, idle: Idle) -> None:
    provider = idle()
    provider.start_container()
    cloud.end(cloud.only)
    with pytest.raises(ProviderError, match=r"can't serve: Modal has ended it, .* the 3600 s of timeout="):
        provider.check_alive()
    provider.shut_down()


def test_an_interrupted_start_leaves_nothing(cloud: FakeModal, idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modal.Sandbox, "tunnels", interrupt)
    with pytest.raises(KeyboardInterrupt):
        idle().start_container()
    assert (cloud.running, len(cloud.sandboxes)) == ([], 1)


def test_a_creation_whose_answer_is_lost_leaves_nothing(
    cloud: FakeModal, idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.faults.append(Fault("SandboxCreate", Status.UNAVAILABLE, done=True))
    with pytest.raises(ProviderError, match=r"503 \(no healthy upstream\)"):
        idle().start_container()
    assert (cloud.running, len(cloud.sandboxes)) == ([], 1)
    monkeypatch.setattr(Sandbox, "appears_within_s", 60.0)
    cloud.faults[:] = [Fault("SandboxCreate", Status.UNAVAILABLE, done=True, late=12)]
    with pytest.raises(ProviderError, match="503"):
        idle().start_container()
    assert (cloud.running, len(cloud.sandboxes)) == ([], 2)
    cloud.faults[:] = [Fault("SandboxCreate", Status.UNAVAILABLE, done=True, times=1)]
    cloud.faults.append(Fault("SandboxCreate", Status.ALREADY_EXISTS))  # what the SDK's second try meets
    with pytest.raises(ProviderError, match="409"):
        idle().start_container()
    assert (cloud.running, len(cloud.sandboxes)) == ([], 3)


def test_options_that_are_the_providers_own_are_refused(idle: Idle) -> None:
    with pytest.raises(ConfigurationError, match="Expected create_options without image, name, which"):
        idle(create_options={"name": "mine", "image": None, "gpu": "A10G"})


def test_a_program_that_ends_leaves_nothing(cloud: FakeModal) -> None:
    assert start_and_end(MODULE, NAME, image=BARE_IMAGE) == ""
    assert (cloud.running, len(cloud.sandboxes)) == ([], 1)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (Status.UNAUTHENTICATED, r"401 \(it says \[redacted\]\): the key is .*MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"),
        (Status.PERMISSION_DENIED, "403 .*not allowed to do this"),
        (Status.INVALID_ARGUMENT, "400 .*does not accept this request"),
        (Status.RESOURCE_EXHAUSTED, "429 .*too many requests"),
        (Status.INTERNAL, "500 .*fails at the moment"),
        (Status.DATA_LOSS, "the creation of a sandbox failed with it says"),
    ],
)
def test_a_refusal_says_what_to_do(cloud: FakeModal, idle: Idle, status: Status, message: str) -> None:
    cloud.faults.append(Fault("SandboxCreate", status, f"it says {TOKEN[1]}"))
    with pytest.raises(ProviderError, match=message):
        idle().start_container()
    assert cloud.running == []


def test_without_a_token_it_says_what_to_set(cloud: FakeModal, tmp_path: Path) -> None:
    variables = {"MODAL_SERVER_URL": cloud.url, "HOME": str(tmp_path)}
    printed = start_and_end(MODULE, NAME, variables, image=BARE_IMAGE)
    assert "Token missing" in printed
    assert "Set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, from https://modal.com/settings/tokens" in printed
    assert cloud.calls == []


def test_a_search_for_the_app_without_an_answer_leaves_nothing_to_wait_for(
    cloud: FakeModal, idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sandbox, "appears_within_s", 3600.0)
    cloud.faults.append(Fault("AppGetOrCreate", Status.UNAVAILABLE))
    with pytest.raises(ProviderError, match=r"Modal answered the search for its app with 503 \(no healthy upstream\)"):
        idle().start_container()
    assert not [line for line in cloud.lines() if line.startswith("Sandbox")]


def test_a_removal_that_fails_can_be_repeated(cloud: FakeModal, idle: Idle) -> None:
    provider = idle()
    provider.start_container()
    cloud.faults.append(Fault("SandboxTerminate", Status.PERMISSION_DENIED, times=1))
    with pytest.raises(ProviderError, match="403"):
        provider.stop_container()
    assert provider.sandbox_name is not None
    provider.stop_container()
    assert cloud.running == []


def test_without_the_sdk_it_is_importable_and_says_what_is_missing() -> None:
    assert install_command("modal") in make_without("modal", MODULE, NAME)
