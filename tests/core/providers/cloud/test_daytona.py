"""Servers in sandboxes of Daytona: its API is a fake on this machine, the server in the sandbox a real one."""

import logging
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.cloud_programs import idle_providers, interrupt, make_without, start_and_end
from tests.support.servers import eventually
from tests.support.services.daytona_cloud import BARE_IMAGE, GOOD_IMAGE, KEY, FakeDaytona
from tests.support.services.json_server import Answer, Fault, serving

from openenv import GenericEnvClient
from openenv._extras import install_command
from openenv.core.containers.runtime import Resources
from openenv.core.containers.runtime.daytona_provider import DaytonaProvider
from openenv.core.exceptions import (
    ConfigurationError,
    ProviderError,
    ServerNotReadyError,
    ServerUnauthorizedError,
)
from openenv.core.providers.cloud.sandbox import Sandbox

Idle = Callable[..., DaytonaProvider]

SERVER_ERROR = Answer(503, {"message": "no healthy upstream"})
MODULE, NAME = "daytona_provider", "DaytonaProvider"


@pytest.fixture
def daytona(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaytona]:
    with serving(FakeDaytona(tmp_path)) as service:
        monkeypatch.setenv("DAYTONA_API_URL", f"{service.url}/api")
        monkeypatch.setenv("DAYTONA_API_KEY", KEY)
        monkeypatch.delenv("DAYTONA_TARGET", raising=False)
        monkeypatch.setattr(Sandbox, "appears_within_s", 0.0)
        yield service
        service.end()


@pytest.fixture
def idle(daytona: FakeDaytona) -> Iterator[Idle]:
    with idle_providers(DaytonaProvider, image=GOOD_IMAGE) as make:
        yield make


def test_a_client_plays_in_a_sandbox_of_its_own(daytona: FakeDaytona) -> None:
    states: list[str] = []
    provider = DaytonaProvider(
        image=GOOD_IMAGE,
        env_vars={"GREETING": "hi"},
        secrets={"API_PASSWORD": "it's secret"},
        on_snapshot_create_logs=states.append,
    )
    with GenericEnvClient(provider=provider).sync() as client:
        client.reset()
        assert client.step({"message": "hello"}).reward == 0.5
        sandbox = daytona.only
        assert states == ["pending_build", "building_snapshot", "starting"]
        assert sandbox.wanted["env"] == {"GREETING": "hi"}
        assert "secret" not in str(sandbox.wanted)
        assert provider.token
        assert provider.token not in str(sandbox.wanted)
        with (
            pytest.raises(ServerUnauthorizedError),
            GenericEnvClient(base_url=provider.base_url, headers=dict(provider.headers)).sync() as stranger,
        ):
            stranger.reset()
        with GenericEnvClient(base_url=provider.refresh_preview_url(), token=provider.token).sync() as other:
            other.reset()
    assert daytona.sandboxes == {}
    assert provider.sandbox_name is None


def test_without_its_header_the_proxy_is_no_healthy_server(daytona: FakeDaytona, idle: Idle) -> None:
    provider = idle()
    provider.start_container()
    url = daytona.only.machine.proxy({"x-other": "token"})
    with pytest.raises(ServerNotReadyError, match="status 307"):
        provider.wait_for_ready(url, 2)
    provider.shut_down()


def test_what_a_sandbox_is_made_of(daytona: FakeDaytona, idle: Idle) -> None:
    provider = idle(image=None, resources=Resources(cpus=1.5, memory="3000m", gpus=1), target="eu", public=True)
    provider.start_container(GOOD_IMAGE, port=8000, env_vars={"A": "b"})
    wanted = daytona.only.wanted
    assert wanted["name"] == provider.sandbox_name
    assert wanted["buildInfo"] == {"dockerfileContent": f"FROM {GOOD_IMAGE}\n"}
    assert (wanted["cpu"], wanted["memory"], wanted["gpu"], wanted["target"]) == (2, 3, 1, "eu")
    assert (wanted["env"], wanted["public"]) == ({"A": "b"}, True)
    # Stopped for being idle, it is deleted: nothing stays of a program that was killed.
    assert (wanted["autoStopInterval"], wanted["autoDeleteInterval"]) == (15, 0)
    with pytest.raises(ProviderError, match="is there already"):
        provider.start_container()
    provider.shut_down()


def test_a_snapshot_has_its_own_resources(daytona: FakeDaytona, idle: Idle) -> None:
    sdk_resources = SimpleNamespace(cpu=2, memory=4, disk=8)  # as the SDK's class has them
    provider = idle(image="snapshot:mine", resources=sdk_resources, auto_stop_interval=0)
    provider.start_container()
    assert daytona.only.wanted["snapshot"] == "mine"
    assert daytona.only.wanted["autoStopInterval"] == 0
    assert not {"buildInfo", "cpu"} & set(daytona.only.wanted)
    provider.stop_container()
    provider.start_container(GOOD_IMAGE)
    assert daytona.only.wanted["disk"] == 8
    provider.stop_container()


def test_a_server_that_ends_tells_why(daytona: FakeDaytona, idle: Idle) -> None:
    provider = idle(image=BARE_IMAGE, cmd=None, secrets={"KEY": "s3cr3t-value"})
    with pytest.raises(ProviderError, match=r"(?s)exit code 64.*no openenv\.yaml below .*pass cmd="):
        provider.launch()
    assert daytona.sandboxes == {}
    provider.cmd = "echo I have $KEY and $OPENENV_TOKEN; exit 3"
    with pytest.raises(ProviderError, match=r"(?s)exit code 3.*I have \[redacted\] and \[redacted\]"):
        provider.launch()


def test_a_sandbox_that_takes_no_files_says_so(daytona: FakeDaytona, idle: Idle) -> None:
    daytona.has_tmp = False
    with pytest.raises(ProviderError, match=r"lets no server start: .*(No such file|nonexistent)"):
        idle().start_container()
    assert daytona.sandboxes == {}


def test_a_start_that_was_cut_off_is_repeated_and_the_server_has_its_own_umask(
    daytona: FakeDaytona, idle: Idle
) -> None:
    daytona.has_cut_off_try = True
    umask = subprocess.run(["sh", "-c", "umask"], capture_output=True, text=True, timeout=60).stdout.strip()
    with pytest.raises(ProviderError, match=rf"(?s)exit code 3.*umask: {umask}"):
        idle(cmd="echo umask: $(umask); exit 3").launch()


def test_a_block_with_a_provider_leaves_nothing(daytona: FakeDaytona, idle: Idle) -> None:
    with idle() as provider:
        provider.start_container()
    assert (daytona.sandboxes, len(daytona.removed)) == ({}, 1)


@pytest.mark.parametrize(
    ("states", "timeout_s", "message"),
    [
        (["creating", "build_failed"], 60, r"can't run, it is build_failed: no such image"),
        (["creating", "destroyed"], 60, r"can't run, it is destroyed: Daytona gives no reason"),
        (["creating"], 0.2, r"did not run within 0\.2 s; it is creating.*raise create_timeout"),
    ],
)
def test_a_sandbox_that_never_runs_is_removed(
    daytona: FakeDaytona, idle: Idle, states: list[str], timeout_s: float, message: str
) -> None:
    daytona.states = states
    with pytest.raises(ProviderError, match=message):
        idle(create_timeout=timeout_s).start_container()
    assert daytona.sandboxes == {}


def test_an_interrupted_start_leaves_nothing(daytona: FakeDaytona, idle: Idle) -> None:
    with pytest.raises(KeyboardInterrupt):
        idle(on_snapshot_create_logs=interrupt).start_container()
    # It was changing its state, and Daytona removes nothing that does.
    assert daytona.lines().count(f"DELETE /api/sandbox/{daytona.removed[0].wanted['name']}") > 1
    assert daytona.sandboxes == {}


def test_a_creation_whose_answer_is_lost_leaves_nothing(daytona: FakeDaytona, idle: Idle) -> None:
    daytona.faults.append(Fault("POST /api/sandbox", None, done=True))
    with pytest.raises(ProviderError, match=r"can't be reached at http.*Check the network"):
        idle().start_container()
    assert daytona.lines().count("POST /api/sandbox") == 1
    assert (daytona.sandboxes, len(daytona.removed)) == ({}, 1)


def test_a_sandbox_that_appears_late_is_removed(
    daytona: FakeDaytona, idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sandbox, "appears_within_s", 60.0)
    daytona.states = ["started"]
    daytona.faults.append(Fault("POST /api/sandbox", None, done=True, late=2))
    with pytest.raises(ProviderError, match="can't be reached"):
        idle().start_container()
    assert (daytona.sandboxes, len(daytona.removed)) == ({}, 1)


def test_a_program_that_ends_leaves_nothing(daytona: FakeDaytona) -> None:
    assert start_and_end(MODULE, NAME, image=GOOD_IMAGE) == ""
    assert (daytona.sandboxes, len(daytona.removed)) == ({}, 1)


def test_limits_and_failures_that_pass_are_waited_out(daytona: FakeDaytona, idle: Idle) -> None:
    daytona.faults += [
        Fault("POST /api/sandbox", Answer(429, {"message": "slow down"}, {"Retry-After": "1"})),
        Fault("GET /api/sandbox/[^/]+", SERVER_ERROR),
        Fault("POST /toolbox/.*", SERVER_ERROR),
        Fault("DELETE .*", SERVER_ERROR),
        Fault("DELETE .*", None),
    ]
    provider = idle()
    provider.start_container()
    provider.shut_down()
    assert daytona.sandboxes == {}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(403, {"message": "Forbidden"}), r"403 \(Forbidden\): the key is .*DAYTONA_API_KEY or api_key="),
        (Answer(404, {"message": "Snapshot x not found"}), r"404 \(Snapshot x not found\).*Check the names"),
        (Answer(429, None, {"Retry-After": "3600"}), r"429.*too many requests\. Try again in 3600 s"),
        (SERVER_ERROR, r"503 \(no healthy upstream\): it fails at the moment"),
        (Answer(400, {"message": f"bad env {KEY}"}), r"400 \(bad env \[redacted\]\): it does not accept"),
        (Answer(200, b"<html>Welcome</html>"), r"something that is no JSON: '<html>Welcome.*address of its API"),
    ],
)
def test_a_refusal_says_what_to_do(daytona: FakeDaytona, idle: Idle, answer: Answer, message: str) -> None:
    daytona.faults.append(Fault("POST /api/sandbox", answer, times=9))
    with pytest.raises(ProviderError, match=message):
        idle().start_container()


def test_a_wrong_key_is_reported_once(daytona: FakeDaytona, idle: Idle, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ProviderError, match=r"401 \(Invalid credentials\).*https://app\.daytona\.io/dashboard/keys"):
        idle(api_key="dtn_eve_1234").start_container()
    assert daytona.lines() == ["POST /api/sandbox"]
    assert "dtn_eve_1234" not in caplog.text


def test_a_removal_that_fails_can_be_repeated(daytona: FakeDaytona, idle: Idle) -> None:
    daytona.faults.append(Fault("DELETE .*", SERVER_ERROR, times=4))
    provider = idle()
    provider.start_container()
    with pytest.raises(ProviderError, match="503"):
        provider.stop_container()
    assert provider.sandbox_name is not None
    provider.stop_container()
    assert daytona.sandboxes == {}


def test_a_failed_clean_up_does_not_hide_the_first_error(
    daytona: FakeDaytona, idle: Idle, caplog: pytest.LogCaptureFixture
) -> None:
    daytona.states = ["error"]
    daytona.faults.append(Fault("DELETE .*", SERVER_ERROR, times=4))
    provider = idle()
    with pytest.raises(ProviderError, match="it is error"):
        provider.start_container()
    assert "could not be removed; that is tried again at exit" in caplog.text
    provider.shut_down()
    assert daytona.sandboxes == {}


def test_no_token_goes_to_an_address_without_https(daytona: FakeDaytona, idle: Idle) -> None:
    daytona.faults.append(Fault(".*/preview-url", Answer(200, {"url": "http://8000-x.example.com", "token": "t"})))
    with pytest.raises(ProviderError, match="without https"):
        idle().start_container()
    assert daytona.sandboxes == {}


@pytest.mark.parametrize(
    ("where", "answer", "message"),
    [
        ("POST /api/sandbox", {"state": "started", "id": "1"}, r"Expected 'toolboxProxyUrl' .*version"),
        ("POST /api/sandbox", [], r"Expected 'state' in an answer of Daytona.*DAYTONA_API_URL"),
        (".*/preview-url", {"address": "https://x.example.com"}, "Expected 'url'"),
        (
            "POST /api/sandbox",
            {"state": "started", "id": "1", "toolboxProxyUrl": "http://x.example.com"},
            "gave the commands an address without https",
        ),
    ],
)
def test_answers_of_another_version_are_named(
    daytona: FakeDaytona, idle: Idle, where: str, answer: object, message: str
) -> None:
    daytona.faults.append(Fault(where, Answer(200, answer)))
    with pytest.raises(ProviderError, match=message):
        idle().start_container()
    assert daytona.sandboxes == {}


def test_no_end_of_a_secret_is_left_where_a_log_is_cut(daytona: FakeDaytona, idle: Idle) -> None:
    provider = idle(cmd="echo $KEY $KEY $KEY $KEY; exec sleep 600", secrets={"KEY": "s3c" * 20})
    provider.start_container()
    eventually(lambda: provider.logs() != "", "it prints")
    assert provider.logs() == " ".join(["[redacted]"] * 4)
    assert not [size for size in range(1, 200, 20) if "s3c" in provider.logs(size)]
    provider.shut_down()


def test_what_cannot_be_started_is_said_at_once(
    daytona: FakeDaytona, idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = idle(image=None)
    with pytest.raises(ConfigurationError, match="Expected an image"):
        provider.start_container()
    with pytest.raises(ConfigurationError, match="Expected port to be 8000 or left out, got 9000"):
        provider.start_container(GOOD_IMAGE, port=9000)
    with pytest.raises(ConfigurationError, match="got replicas too"):
        provider.start_container(GOOD_IMAGE, replicas=2)
    with pytest.raises(ConfigurationError, match="environment variable among the secrets, got 'A B'"):
        idle(secrets={"A B": "c"}).start_container()
    with pytest.raises(ProviderError, match="call start_container"):
        provider.refresh_preview_url()
    monkeypatch.delenv("DAYTONA_API_KEY")
    with pytest.raises(ConfigurationError, match="api_key= or DAYTONA_API_KEY"):
        DaytonaProvider()
    assert daytona.requests == []


def test_without_httpx_it_is_importable_and_says_what_is_missing() -> None:
    assert install_command("daytona") in make_without("httpx", MODULE, NAME, api_key="dtn_ada")
