"""Servers in sandboxes of Hugging Face, by the real SDK: the Hub is a fake on this machine, the server a real one."""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants
from tests.support.cloud_programs import idle_providers, interrupt, start_and_end
from tests.support.services.hugging_face_jobs import BARE_IMAGE, GOOD_IMAGE, TOKEN, FakeJobs
from tests.support.services.json_server import Answer, Fault, serving

from openenv import GenericEnvClient
from openenv.core.containers.runtime.hf_sandbox_provider import HFSandboxProvider
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerUnauthorizedError
from openenv.core.providers.cloud.sandbox import Sandbox

Idle = Callable[..., HFSandboxProvider]

SECRET = "s3cr3t-value"
SERVER_ERROR = Answer(503, {"error": "no healthy upstream"})


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeJobs]:
    with serving(FakeJobs(tmp_path)) as service:
        monkeypatch.setenv("HF_ENDPOINT", service.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_HOME", str(tmp_path / ".hf"))
        monkeypatch.setattr(Sandbox, "appears_within_s", 0.0)
        # The library has read its variables already.
        monkeypatch.setattr(constants, "ENDPOINT", service.url)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", str(tmp_path / "harnesses"))
        yield service
        service.end()
        huggingface_hub.close_session()


@pytest.fixture
def idle(hub: FakeJobs) -> Iterator[Idle]:
    with idle_providers(HFSandboxProvider, image=BARE_IMAGE) as make:
        yield make


def test_a_client_plays_in_a_sandbox_of_its_own(hub: FakeJobs) -> None:
    provider = HFSandboxProvider(image=GOOD_IMAGE, env_vars={"GREETING": "hi"}, secrets={"API_PASSWORD": "it's secret"})
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        assert client.step({"message": "hello"}).reward == 0.5
        (job,) = hub.running
        assert (job.wanted["spaceId"], job.wanted["flavor"]) == ("ada/echo_env", "cpu-basic")
        assert job.wanted["environment"]["GREETING"] == "hi"
        assert job.wanted["labels"]["openenv"] == provider.sandbox_name
        assert "it's secret" not in str(job.wanted)
        assert provider.headers.keys() == {"Authorization", "X-Sandbox-Token"}
        assert provider.token
        assert provider.token not in str(job.wanted)
        for token in ("another", ""):
            with pytest.raises(ServerUnauthorizedError):
                GenericEnvClient(provider.base_url, headers=dict(provider.headers), token=token).sync().reset()
        stranger = GenericEnvClient(provider.base_url, headers=dict(provider.headers), token=provider.token)
        with stranger.sync() as other:
            other.reset()
    assert hub.running == []
    assert provider.sandbox_name is None


def test_a_server_that_ends_tells_why(hub: FakeJobs, idle: Idle) -> None:
    provider = idle(cmd="echo I have $KEY; exit 3", secrets={"KEY": "s3cr3t-value"})
    with pytest.raises(ProviderError, match=r"(?s)exit code 3.*I have \[redacted\]"):
        provider.launch()
    assert hub.running == []


def test_a_sandbox_that_does_not_run_in_time_is_removed(hub: FakeJobs, idle: Idle) -> None:
    hub.stage = "SCHEDULING"
    with pytest.raises(ProviderError, match=r"did not become ready within 0s"):
        idle(create_timeout=0.2).start_container()
    assert [job.stage for job in hub.jobs.values()] == ["CANCELED"]


def test_an_interrupted_start_leaves_nothing(hub: FakeJobs, idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub._sandbox._SandboxServer.wait_ready", interrupt)
    with pytest.raises(KeyboardInterrupt):
        idle().start_container()
    assert [job.stage for job in hub.jobs.values()] == ["CANCELED"]


def test_a_creation_whose_answer_is_lost_leaves_nothing(hub: FakeJobs, idle: Idle) -> None:
    hub.faults.append(Fault("POST /api/jobs/ada", None, done=True))
    with pytest.raises(ProviderError, match=r"Hugging Face can't be reached"):
        idle().start_container()
    assert [job.stage for job in hub.jobs.values()] == ["CANCELED"]


def test_a_job_that_appears_late_is_canceled(hub: FakeJobs, idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "appears_within_s", 60.0)
    hub.faults.append(Fault("POST /api/jobs/ada", None, done=True, late=3))  # the user is read, too
    with pytest.raises(ProviderError, match=r"Hugging Face can't be reached"):
        idle().start_container()
    assert [job.stage for job in hub.jobs.values()] == ["CANCELED"]


def test_a_program_that_ends_leaves_nothing(hub: FakeJobs) -> None:
    assert start_and_end("hf_sandbox_provider", "HFSandboxProvider", image=BARE_IMAGE) == ""
    assert [job.stage for job in hub.jobs.values()] == ["CANCELED"]


def test_limits_and_failures_that_pass_are_waited_out(hub: FakeJobs, idle: Idle) -> None:
    hub.faults += [
        Fault("POST /api/jobs/ada", Answer(429, {"error": "slow down"}, {"Retry-After": "1"})),
        Fault("POST .*/v1/exec", SERVER_ERROR),
        Fault("POST .*/cancel", SERVER_ERROR),
    ]
    provider = idle()
    provider.start_container()
    provider.shut_down()
    assert [job.stage for job in hub.jobs.values()] == ["CANCELED"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(401, {"error": "Invalid credentials"}), r"401 \(Invalid credentials\).*Set HF_TOKEN or token="),
        (Answer(403, {"error": "no credit"}), r"403 \(no credit.*the key is missing, wrong, or not allowed"),
        (Answer(429, {}, {"Retry-After": "3600"}), r"429.*too many requests\. Try again in 3600 s"),
        (SERVER_ERROR, r"503 \(no healthy upstream\): it fails at the moment"),
    ],
)
def test_a_refusal_says_what_to_do(hub: FakeJobs, idle: Idle, answer: Answer, message: str) -> None:
    hub.faults.append(Fault("POST /api/jobs/ada", answer, times=9))
    with pytest.raises(ProviderError, match=message):
        idle().start_container()


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("POST /api/jobs/ada", Answer(400, {"error": f"bad job of {TOKEN}: {SECRET}"})),
        ("POST .*/v1/exec", Answer(400, {"error": f"bad command of {TOKEN}: {SECRET}"})),
        ("POST .*/v1/exec", Answer(200, f"{TOKEN} {SECRET} is no JSON".encode())),
    ],
)
def test_no_error_shows_a_secret(hub: FakeJobs, idle: Idle, where: str, answer: Answer) -> None:
    hub.faults.append(Fault(where, answer))
    with pytest.raises(ProviderError) as caught:
        idle(secrets={"KEY": SECRET}).start_container()
    printed = "".join(traceback.format_exception(caught.value))
    assert not [secret for secret in (TOKEN, SECRET) if secret in printed]
    assert [job.stage for job in hub.jobs.values()] in ([], ["CANCELED"])


def test_an_error_of_the_sdk_in_the_clean_up_does_not_hide_the_first_one(
    hub: FakeJobs, idle: Idle, caplog: pytest.LogCaptureFixture
) -> None:
    hub.faults += [
        Fault("POST /api/jobs/ada", None, done=True),
        Fault("GET /api/jobs/ada", Answer(200, b"no JSON")),
    ]
    provider = idle()
    with pytest.raises(ProviderError, match="Hugging Face can't be reached"):
        provider.start_container()
    assert "could not be removed; that is tried again at exit" in caplog.text
    provider.shut_down()
    assert [job.stage for job in hub.jobs.values()] == ["CANCELED"]


def test_a_removal_that_fails_can_be_repeated(hub: FakeJobs, idle: Idle) -> None:
    hub.faults.append(Fault("POST .*/cancel", SERVER_ERROR, times=4))
    provider = idle()
    provider.start_container()
    with pytest.raises(ProviderError, match="503"):
        provider.stop_container()
    provider.stop_container()
    assert hub.running == []


def test_what_cannot_be_started_is_said_at_once(hub: FakeJobs, idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="Expected an image"):
        idle(image=None).start_container()
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ConfigurationError, match="Set HF_TOKEN or token="):
        HFSandboxProvider()
    assert hub.requests == []
