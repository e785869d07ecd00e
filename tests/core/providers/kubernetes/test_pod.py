"""The pod and its Secret, as manifests."""

import json
from typing import Any

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from tests.support.services.kubernetes_tools import check_schema

from openenv.core.providers.kubernetes.pod import PodSettings, alive_at, alive_patch, pod_manifest, secret_manifest
from openenv.core.providers.resources import Resources

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,10}[a-z0-9]", fullmatch=True)
VARIABLES = st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True)


@st.composite
def pods(draw: st.DrawFn) -> PodSettings:
    return PodSettings(
        name=draw(NAMES),
        image=draw(st.sampled_from(["echo:1", "registry.test:5000/My_Team/Echo_Env@sha256:00"])),
        port=draw(st.integers(1, 65535)),
        env_vars=draw(st.dictionaries(VARIABLES, st.text(st.characters(exclude_categories=["Cs"]), max_size=5))),
        secret_names=tuple(draw(st.lists(VARIABLES, unique=True, max_size=3))),
        resources=draw(st.sampled_from([Resources(), Resources(cpus=0.01, memory=1, gpus=2)])),
        lifetime_s=draw(st.none() | st.floats(0.1, 1e6)),
        user=draw(st.integers(1, 2**31 - 1)),
        read_only_root=draw(st.booleans()),
        labels=draw(st.dictionaries(NAMES, NAMES, max_size=2)),
    )


@given(pods(), st.floats(0, 4e9))
@effort(max_examples=12, deadline=None)
def test_whatever_is_asked_for_the_manifests_fit_the_schemas(settings: PodSettings, now: float) -> None:
    check_schema(pod_manifest(settings, now))
    check_schema(secret_manifest(settings, {"A": "1"}, "a-uid"))


def pod_with(**choice: Any) -> dict[str, Any]:
    return pod_manifest(PodSettings(**{"name": "p", "image": "echo:1", "port": 8000, **choice}), 1.0)


def test_labels_of_ones_own_don_t_hide_the_pod_from_its_provider() -> None:
    labels = pod_with(labels={"app.kubernetes.io/managed-by": "me", "mine": "yes"})["metadata"]["labels"]
    assert (labels["app.kubernetes.io/managed-by"], labels["mine"]) == ("openenv-provider", "yes")


def test_a_variable_of_ones_own_wins() -> None:
    env = pod_with(env_vars={"HOME": "/home/me"})["spec"]["containers"][0]["env"]
    assert [entry["value"] for entry in env if entry["name"] == "HOME"] == ["/home/me"]


def test_who_started_a_pod_can_be_read_from_it() -> None:
    told = json.loads(pod_with()["metadata"]["annotations"]["openenv.dev/started-by"])
    assert set(told) == {"user", "host", "pid"}


@given(st.integers(0, 2**40))
def test_the_time_of_a_provider_s_last_word_is_read_as_it_was_written(now: int) -> None:
    assert alive_at(pod_manifest(PodSettings("p", "echo:1", 8000), now)) == now
    assert alive_at(alive_patch(now)) == now


def test_a_pod_without_a_time_has_none() -> None:
    assert alive_at({"metadata": {}}) is None
    assert alive_at({"metadata": {"annotations": {"openenv.dev/alive-at": "yesterday"}}}) is None
