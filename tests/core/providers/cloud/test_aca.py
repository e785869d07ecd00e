"""Servers in sandboxes of Azure, by the real SDK: its API is a fake on this machine, the server a real one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.containerapps.sandbox import SandboxClient
from tests.support.cloud_programs import idle_providers, interrupt, make_without
from tests.support.services.azure_sandboxes import DISK, KEY, Credential, FakeAzure
from tests.support.services.json_server import Answer, Fault, serving

from openenv import GenericEnvClient
from openenv._extras import install_command
from openenv.core.containers.runtime.aca_provider import ACASandboxProvider
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerNotReadyError, ServerUnauthorizedError
from openenv.core.providers.cloud.sandbox import Sandbox

Idle = Callable[..., ACASandboxProvider]

CREATION = "PUT .*/sandboxes"
SERVER_ERROR = Answer(503, {"error": {"message": "no healthy upstream"}})


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAzure]:
    fake = FakeAzure(tmp_path)
    with serving(fake, fake.certificate) as service:
        monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", "s")
        monkeypatch.setenv("AZURE_RESOURCE_GROUP", "rg")
        monkeypatch.setenv("AZURE_SANDBOX_GROUP", "sg")
        monkeypatch.setenv("SSL_CERT_FILE", str(service.authority))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(service.authority))
        monkeypatch.setattr(Sandbox, "appears_within_s", 0.0)
        yield service
        service.end()


@pytest.fixture
def idle(cloud: FakeAzure) -> Iterator[Idle]:
    with idle_providers(ACASandboxProvider, image=DISK, **reached(cloud)) as make:
        yield make


def reached(cloud: FakeAzure) -> dict[str, Any]:
    """What leads a provider to the fake."""
    return {
        "endpoint": cloud.url,
        "credential": Credential(),
        "anonymous_port": True,
        "polling_interval": 0,
        "egress_policy": ACASandboxProvider.deny_all_egress(),
    }


def test_a_client_plays_in_a_sandbox_of_its_own(cloud: FakeAzure) -> None:
    provider = ACASandboxProvider(
        image=DISK, env_vars={"GREETING": "hi"}, secrets={"API_PASSWORD": "it's secret"}, **reached(cloud)
    )
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        assert client.step({"message": "hello"}).reward == 0.5
        for token in ("another", ""):  # the port is open, and the way to it may end on the sandbox's loopback
            with pytest.raises(ServerUnauthorizedError):
                GenericEnvClient(provider.base_url, token=token).sync().reset()
        wanted = cloud.only.wanted
        assert wanted["sourcesRef"] == {"diskImage": {"name": DISK, "isPublic": True}}
        assert (wanted["environment"], wanted["labels"]) == ({"GREETING": "hi"}, {"openenv": provider.sandbox_name})
        assert cloud.only.ports[0]["auth"] == {"anonymous": True}
        assert provider.token
        assert not [secret for secret in ("it's secret", provider.token) if secret in str(wanted)]
    assert cloud.sandboxes == {}
    assert provider.sandbox_name is None


def test_what_a_sandbox_is_made_of(cloud: FakeAzure, idle: Idle) -> None:
    provider = idle(
        image=None,
        cpu="2000m",
        memory="4096Mi",
        disk_size="20Gi",
        auto_suspend_seconds=60,
        auto_suspend_mode="Disk",
        labels={"team": "ada"},
        egress_policy=ACASandboxProvider.deny_all_egress(allow=["models.example.com"]),
        cmd="pwd; exit 3",
        working_directory="/app",
        surface_server_logs=True,
    )
    provider.start_container("disk-id:0c1f", port=8000, env_vars={"A": "b"})
    wanted = cloud.only.wanted
    assert wanted["sourcesRef"] == {"diskImage": {"id": "0c1f"}}
    assert wanted["resources"] == {"cpu": "2000m", "memory": "4096Mi", "disk": "20Gi"}
    assert wanted["lifecycle"]["autoSuspendPolicy"] == {"enabled": True, "interval": 60, "mode": "Disk"}
    assert wanted["labels"] == {"team": "ada", "openenv": provider.sandbox_name}
    assert wanted["egressPolicy"]["defaultAction"] == "Deny"
    assert wanted["egressPolicy"]["hostRules"] == [{"pattern": "models.example.com", "action": "Allow"}]
    with pytest.raises(ProviderError, match=r"(?s)exit code 3.*/app"):
        provider.wait_for_ready(provider.base_url)
    provider.shut_down()


def test_a_server_that_ends_tells_why(cloud: FakeAzure, idle: Idle) -> None:
    settings = {"cmd": "echo I have $KEY; exit 3", "secrets": {"KEY": "s3cr3t-value"}}
    with pytest.raises(ProviderError, match=r"(?s)exit code 3.*I have \[redacted\]"):
        idle(surface_server_logs=True, **settings).launch()
    hint = r"exit code 3\. With surface_server_logs=True this shows what the server printed"
    with pytest.raises(ProviderError, match=hint) as caught:
        idle(**settings).launch()
    assert "I have" not in str(caught.value)
    assert cloud.sandboxes == {}


def test_an_open_network_is_said(cloud: FakeAzure, idle: Idle, caplog: pytest.LogCaptureFixture) -> None:
    idle().start_container()
    assert "may connect to everything" not in caplog.text
    idle(egress_policy=None).start_container()
    assert "may connect to everything, the cloud's own addresses included" in caplog.text


@pytest.mark.parametrize(
    ("states", "details", "why"),
    [(["Failed"], None, "it is Failed at Azure"), (["Stopped"], {"stoppedReason": "Disabled"}, "it is disabled at")],
)
def test_a_sandbox_that_azure_has_ended_is_reported(
    cloud: FakeAzure, idle: Idle, states: list[str], details: dict[str, str] | None, why: str
) -> None:
    provider = idle()
    provider.start_container()
    cloud.only.states, cloud.only.details = states, details
    with pytest.raises(ProviderError, match=f"can't serve: {why}"):
        provider.check_alive()
    provider.shut_down()


def test_a_sandbox_that_cannot_run_is_removed(cloud: FakeAzure, idle: Idle) -> None:
    cloud.states = ["Creating", "Failed"]
    with pytest.raises(ProviderError, match=r"of Azure can't run: .*'failed'"):
        idle().start_container()
    cloud.states = ["Creating"]
    with pytest.raises(ServerNotReadyError, match=r"did not run within 0 s; raise create_timeout"):
        idle(create_timeout=0).start_container()
    assert (cloud.sandboxes, len(cloud.removed)) == ({}, 2)


def test_an_interrupted_start_leaves_nothing(cloud: FakeAzure, idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SandboxClient, "add_port", interrupt)
    with pytest.raises(KeyboardInterrupt):
        idle().start_container()
    assert (cloud.sandboxes, len(cloud.removed)) == ({}, 1)


@pytest.mark.parametrize(("late", "seconds"), [(0, 0.0), (2, 60.0)])
@pytest.mark.parametrize("answer", [None, SERVER_ERROR])
def test_a_creation_whose_answer_is_lost_leaves_nothing(
    cloud: FakeAzure, idle: Idle, monkeypatch: pytest.MonkeyPatch, late: int, seconds: float, answer: Answer | None
) -> None:
    monkeypatch.setattr(Sandbox, "appears_within_s", seconds)
    cloud.faults.append(Fault(CREATION, answer, done=True, late=late))
    with pytest.raises(ProviderError, match=r"503|Azure can't be reached for the creation of a sandbox"):
        idle().start_container()
    assert len([line for line in cloud.lines() if line.startswith("PUT ")]) == 1  # the SDK's own repetition is off
    assert (cloud.sandboxes, len(cloud.removed)) == ({}, 1)


def test_failures_that_pass_are_waited_out(cloud: FakeAzure, idle: Idle) -> None:
    cloud.faults += [
        Fault(CREATION, Answer(429, {"error": {"message": "slow down"}}, {"Retry-After": "1"})),
        Fault("POST .*/executeShellCommand", SERVER_ERROR),
        Fault("DELETE .*", SERVER_ERROR),
        Fault("DELETE .*", None),
    ]
    provider = idle()
    provider.start_container()
    provider.shut_down()
    assert (cloud.sandboxes, len(cloud.removed)) == ({}, 1)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, r"401 \(it says \[redacted\]\): the key is .*Set credential=, or log in by `az login`"),
        (403, r"403 .*not allowed to do this"),
        (404, r"404 .*Check the names"),
        (429, r"429 .*too many requests\. Try again in 3600 s"),
        (503, r"503 .*fails at the moment"),
    ],
)
def test_a_refusal_says_what_to_do(cloud: FakeAzure, idle: Idle, status: int, message: str) -> None:
    refused = Answer(status, {"error": {"code": "No", "message": "it says s3cr3t-value"}}, {"Retry-After": "3600"})
    cloud.faults.append(Fault(CREATION, refused, times=9))
    with pytest.raises(ProviderError, match=message) as caught:
        idle(secrets={"KEY": "s3cr3t-value"}).start_container()
    assert KEY not in str(caught.value)
    assert cloud.sandboxes == {}


def test_a_provider_that_was_shut_down_starts_again(cloud: FakeAzure, idle: Idle) -> None:
    provider = idle()
    for count in (1, 2):
        provider.start_container()
        assert len(cloud.sandboxes) == 1
        provider.shut_down()
        assert (cloud.sandboxes, len(cloud.removed)) == ({}, count)


def test_a_removal_that_fails_can_be_repeated(cloud: FakeAzure, idle: Idle) -> None:
    provider = idle()
    provider.start_container()
    cloud.faults.append(Fault("DELETE .*", Answer(403, {"error": {"message": "no"}})))
    with pytest.raises(ProviderError, match="403"):
        provider.stop_container()
    assert provider.sandbox_name is not None
    cloud.remove(cloud.only.id)  # somebody else was quicker
    provider.stop_container()
    assert cloud.sandboxes == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"anonymous_port": None}, "Expected anonymous_port=True, got None: .* open to everybody"),
        ({"anonymous_port": False}, "Expected anonymous_port=True, got False"),
        ({"auto_suspend_mode": "Off"}, "Expected auto_suspend_mode to be 'Memory' or 'Disk', got 'Off'"),
        ({"cmd": None, "working_directory": "/app"}, "Expected cmd= beside working_directory="),
        ({"endpoint": "http://localhost"}, "Expected endpoint to begin with https://"),
        ({"endpoint": None}, "Expected region= or AZURE_REGION, got neither"),
        ({"image": "ghcr.io/ada/echo-env:1.0"}, r"Expected a disk image of Azure's .*begin_create_disk_image"),
        ({"image": "echo:1.0"}, "Expected a disk image of Azure's"),
    ],
)
def test_what_cannot_be_started_is_said_at_once(
    cloud: FakeAzure, idle: Idle, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        idle(**settings).start_container()
    assert cloud.requests == []


@pytest.mark.parametrize("name", ["subscription_id", "resource_group", "sandbox_group"])
def test_a_group_that_is_not_known_is_said(
    cloud: FakeAzure, idle: Idle, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    idle(**{name: "given"})
    monkeypatch.delenv(f"AZURE_{name.upper()}")
    with pytest.raises(ConfigurationError, match=f"Expected {name}= or AZURE_{name.upper()}, got neither"):
        idle()


def test_without_the_sdk_it_is_importable_and_says_what_is_missing(cloud: FakeAzure) -> None:
    for missing in ("azure.containerapps.sandbox", "azure.identity"):
        said = make_without(missing, "aca_provider", "ACASandboxProvider", anonymous_port=True, region="eastus2")
        assert install_command("aca") in said
