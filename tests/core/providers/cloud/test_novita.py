"""Servers in sandboxes of Novita, by the real SDK: its API is a fake on this machine, the server a real one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import novita_sandbox
import pytest
from tests.support.cloud_programs import idle_providers, interrupt, make_without, start_and_end
from tests.support.services.json_server import Answer, Fault, serving
from tests.support.services.novita_cloud import GOOD_IMAGE, KEY, TEMPLATE, FakeNovita

from openenv import GenericEnvClient
from openenv._extras import install_command
from openenv.core.containers.runtime.novita_provider import NovitaSandboxProvider
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerUnauthorizedError
from openenv.core.providers.cloud.sandbox import Sandbox

Idle = Callable[..., NovitaSandboxProvider]

ROOT_USER = "Basic cm9vdDo="
SERVER_ERROR = Answer(503, {"code": 503, "message": "no healthy upstream"})
MODULE, NAME = "novita_provider", "NovitaSandboxProvider"


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNovita]:
    with serving(FakeNovita(tmp_path)) as service:
        monkeypatch.setenv("NOVITA_API_URL", service.url)
        monkeypatch.setenv("NOVITA_SANDBOX_URL", service.url)
        monkeypatch.setenv("NOVITA_API_KEY", KEY)
        monkeypatch.setenv("SSL_CERT_FILE", str(service.authority))
        monkeypatch.delenv("NOVITA_DOMAIN", raising=False)
        monkeypatch.setattr(Sandbox, "appears_within_s", 0.0)
        # The host names of Novita's domain lead nowhere on this machine.
        monkeypatch.setattr(novita_sandbox.Sandbox, "get_host", lambda made, _port: service.host(made.sandbox_id))
        yield service
        service.end()


@pytest.fixture
def idle(cloud: FakeNovita) -> Iterator[Idle]:
    with idle_providers(NovitaSandboxProvider, image=f"template:{TEMPLATE}") as make:
        yield make


def test_a_client_plays_in_a_sandbox_of_its_own(cloud: FakeNovita) -> None:
    provider = NovitaSandboxProvider(
        image=f"template:{TEMPLATE}", env_vars={"GREETING": "hi"}, secrets={"API_PASSWORD": "it's secret"}
    )
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        assert client.step({"message": "hello"}).reward == 0.5
        for token in ("another", ""):  # the tunnel ends on the sandbox's own loopback, which is no reason to trust it
            with pytest.raises(ServerUnauthorizedError):
                GenericEnvClient(provider.base_url, token=token).sync().reset()
        wanted = cloud.only.wanted
        assert (wanted["templateID"], wanted["timeout"], wanted["envVars"]) == (TEMPLATE, 3600, {"GREETING": "hi"})
        assert wanted["secure"] is True
        assert wanted["metadata"] == {"openenv": provider.sandbox_name}
        assert provider.token
        assert not [secret for secret in ("it's secret", provider.token) if secret in str(wanted)]
    assert cloud.sandboxes == {}
    assert provider.sandbox_name is None


def test_an_image_becomes_a_template_once(cloud: FakeNovita, idle: Idle, capsys: pytest.CaptureFixture[str]) -> None:
    entries: list[Any] = []
    provider = idle(image=GOOD_IMAGE, cpu_count=4, memory_mb=2048, on_build_logs=entries.append)
    provider.start_container()
    (name,) = cloud.templates.keys() - {TEMPLATE}
    made = cloud.templates[name]
    assert (made["cpuCount"], made["memoryMB"], made["fromImage"]) == (4, 2048, GOOD_IMAGE)
    assert made["startCmd"] == "sleep infinity"
    assert [entry.message for entry in entries if entry.message == "made"] == ["made"]
    assert set(cloud.only.users) == {ROOT_USER}
    provider.stop_container()
    provider.start_container()
    assert cloud.lines().count("POST /v3/templates") == 1
    provider.stop_container()
    assert capsys.readouterr().out == ""


def test_what_a_sandbox_is_made_of(cloud: FakeNovita, idle: Idle) -> None:
    cloud.traffic_token = "of the traffic"
    settings = {"timeout": 60, "metadata": {"idle_timeout": "900"}, "secure": True, "domain": "eu.example.com"}
    provider = idle(image=None, api_key=KEY, cmd="pwd; exit 3", working_directory="/app", **settings)
    provider.start_container(f"template:{TEMPLATE}", port=8000, env_vars={"A": "b"})
    wanted = cloud.only.wanted
    assert (wanted["timeout"], wanted["secure"], wanted["envVars"]) == (60, True, {"A": "b"})
    assert wanted["metadata"] == {"idle_timeout": "900", "openenv": provider.sandbox_name}
    assert set(cloud.only.users) == {""}
    assert provider.headers == {"E2B-Traffic-Access-Token": "of the traffic"}
    with pytest.raises(ProviderError, match=r"(?s)exit code 3.*/app"):
        provider.wait_for_ready(provider.base_url)
    provider.shut_down()


def test_a_server_that_ends_tells_why(cloud: FakeNovita, idle: Idle) -> None:
    with pytest.raises(ProviderError, match=r"(?s)exit code 3.*I have \[redacted\]"):
        idle(cmd="echo I have $KEY; exit 3", secrets={"KEY": "s3cr3t-value"}).launch()
    with pytest.raises(ProviderError, match="exit code 3") as caught:
        idle(cmd="echo something private; exit 3", surface_server_logs=False).launch()
    assert "private" not in str(caught.value)
    assert cloud.sandboxes == {}


def test_an_image_that_cannot_become_a_template_says_so(cloud: FakeNovita, idle: Idle) -> None:
    reason = {"message": f"no such image, says {KEY}"}
    state = {"buildID": "b1", "templateID": "t", "status": "error", "logs": [], "logEntries": []}
    failed = Answer(200, state | {"reason": reason})
    cloud.faults.append(Fault("GET /templates/.*/status", failed))
    with pytest.raises(ProviderError, match=r"can't make a template of the image: .*no such image, says \[redacted\]"):
        idle(image=GOOD_IMAGE).start_container()
    assert cloud.sandboxes == {}


def test_a_sandbox_that_novita_has_ended_is_reported(cloud: FakeNovita, idle: Idle) -> None:
    provider = idle()
    provider.start_container()
    cloud.only.is_ended = True
    with pytest.raises(ProviderError, match=r"can't serve: Novita has ended it, .* the 3600 s of timeout="):
        provider.check_alive()
    provider.shut_down()


def test_an_interrupted_start_leaves_nothing(cloud: FakeNovita, idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(novita_sandbox.Sandbox, "get_host", interrupt)
    with pytest.raises(KeyboardInterrupt):
        idle().start_container()
    assert (cloud.sandboxes, len(cloud.removed)) == ({}, 1)


@pytest.mark.parametrize(("late", "seconds"), [(0, 0.0), (2, 60.0)])
def test_a_creation_whose_answer_is_lost_leaves_nothing(
    cloud: FakeNovita, idle: Idle, monkeypatch: pytest.MonkeyPatch, late: int, seconds: float
) -> None:
    monkeypatch.setattr(Sandbox, "appears_within_s", seconds)
    cloud.faults.append(Fault("POST /sandboxes", None, done=True, late=late))
    with pytest.raises(ProviderError, match=r"Novita can't be reached for the creation of a sandbox"):
        idle().start_container()
    assert cloud.lines().count("POST /sandboxes") == 1
    assert (cloud.sandboxes, len(cloud.removed)) == ({}, 1)


def test_a_program_that_ends_leaves_nothing(cloud: FakeNovita) -> None:
    assert start_and_end(MODULE, NAME, image=f"template:{TEMPLATE}") == ""
    assert (cloud.sandboxes, len(cloud.removed)) == ({}, 1)


def test_failures_that_pass_are_waited_out(cloud: FakeNovita, idle: Idle) -> None:
    cloud.faults += [
        Fault("POST /sandboxes", Answer(429, {"message": "slow down"})),
        Fault("POST /process.*", SERVER_ERROR),
        Fault("DELETE .*", SERVER_ERROR),
        Fault("DELETE .*", None),
    ]
    provider = idle()
    provider.start_container()
    provider.shut_down()
    assert cloud.sandboxes == {}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, r"401 \(.*it says \[redacted\]\): the key is .*Set NOVITA_API_KEY or api_key="),
        (403, r"403 \(it says \[redacted\]\): .*not allowed to do this"),
        (404, r"404 .*Check the names"),
        (503, r"503 .*fails at the moment"),
    ],
)
def test_a_refusal_says_what_to_do(cloud: FakeNovita, idle: Idle, status: int, message: str) -> None:
    cloud.faults.append(Fault("POST /sandboxes", Answer(status, {"code": status, "message": f"it says {KEY}"})))
    with pytest.raises(ProviderError, match=message):
        idle().start_container()
    assert cloud.sandboxes == {}


def test_a_removal_that_fails_can_be_repeated(cloud: FakeNovita, idle: Idle) -> None:
    provider = idle()
    provider.start_container()
    cloud.faults.append(Fault("DELETE .*", Answer(403, {"message": "no"})))
    with pytest.raises(ProviderError, match="403"):
        provider.stop_container()
    assert provider.sandbox_name is not None
    provider.stop_container()
    assert cloud.sandboxes == {}


def test_what_cannot_be_started_is_said_at_once(cloud: FakeNovita, idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="Expected cmd= beside working_directory="):
        idle(cmd=None, working_directory="/app")
    monkeypatch.delenv("NOVITA_API_KEY")
    with pytest.raises(ConfigurationError, match=r"Novita's API key, got none\. Set NOVITA_API_KEY or api_key="):
        idle()
    assert cloud.requests == []


def test_without_the_sdk_it_is_importable_and_says_what_is_missing() -> None:
    assert install_command("novita") in make_without("novita_sandbox", MODULE, NAME)
