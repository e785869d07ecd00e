"""Which deployments make sense."""

from typing import Any

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.deploy.settings import Autoscaler, DeploymentSettings


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"name": "Not_A_Name"}, "got 'Not_A_Name'"),
        ({"name": "n" * 64}, "at most 63"),
        ({"namespace": "-x"}, "got '-x'"),
        ({"secret": "my.secret"}, "got 'my.secret'"),
        ({"allowed_namespaces": ("a", "B")}, "got 'B'"),
        ({"image": " "}, "name of an image"),
        ({"user": 0}, "other than root"),
        ({"replicas": 0}, "at least 1 replica, got 0"),
        ({"max_replicas": 4}, "prometheus-adapter or keda"),
        ({"autoscaler": Autoscaler.KEDA}, "number of sessions"),
        ({"autoscaler": Autoscaler.KEDA, "max_sessions": 8, "replicas": 4, "max_replicas": 2}, "got 2 and 4"),
        ({"env_vars": {"PORT": "1"}}, "Expected no PORT"),
        ({"secret_env": ("OPENENV_TOKEN",)}, "Expected no OPENENV_TOKEN"),
        ({"env_vars": {"A-B": "1"}}, "got 'A-B'"),
        ({"env_vars": {"A": "1"}, "secret_env": ("A",)}, "got A as a secret too"),
    ],
)
def test_what_makes_no_sense_is_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        DeploymentSettings(**{"name": "echo", "image": "echo:1", **choice})


def test_another_server_is_added_before_all_are_full() -> None:
    def target(max_sessions: int) -> int:
        return DeploymentSettings("echo", "echo:1", max_sessions=max_sessions).sessions_per_replica

    assert [target(count) for count in (1, 2, 10, 64)] == [1, 1, 7, 44]


def test_a_token_is_in_no_repr() -> None:
    assert "hush" not in repr(DeploymentSettings("echo", "echo:1", token="hush"))
