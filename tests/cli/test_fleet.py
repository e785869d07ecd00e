"""``openenv serve --fleet``, as far as it needs no Ray; ``tests/fleet`` has the rest."""

from typing import Any

import pytest

from openenv.cli.fleet import FleetOptions
from openenv.core.exceptions import ConfigurationError
from openenv.fleet.autoscaling import Autoscaling


@pytest.mark.parametrize("options", [("--replicas", 2), ("--max-replicas", 2), ("--replica-memory", "1g")])
def test_what_is_said_of_replicas_needs_a_fleet(openenv_here: Any, options: tuple[object, ...]) -> None:
    refused = openenv_here("serve", "catch", *options)
    assert refused.returncode == 2
    assert "need --fleet ray" in refused.stderr


@pytest.mark.parametrize("options", [("--workers", 2), ("--fd", 3), ("--reload",)])
def test_a_fleet_has_processes_of_its_own(openenv_here: Any, options: tuple[object, ...]) -> None:
    refused = openenv_here("serve", "catch", "--fleet", "ray", *options)
    assert refused.returncode == 2
    assert "A fleet's servers are processes already" in refused.stderr


def test_bounds() -> None:
    assert FleetOptions(4).autoscaling is None
    assert FleetOptions(2, max_replicas=8).autoscaling == Autoscaling(2, 8)
    assert FleetOptions(4, min_replicas=2).autoscaling == Autoscaling(2, 4)
    assert FleetOptions(1, min_replicas=3).autoscaling == Autoscaling(3, 3)
    with pytest.raises(ConfigurationError, match="got 5 and 2"):
        FleetOptions(5, max_replicas=2).autoscaling  # noqa: B018  # a property that checks


def test_what_a_replica_needs() -> None:
    assert FleetOptions(1).resources is None
    resources = FleetOptions(1, memory="1g").resources
    assert resources is not None
    assert (resources.cpus, resources.memory_bytes) == (None, 2**30)


def test_an_environment_that_is_not_there_is_told_before_ray_starts(openenv_here: Any) -> None:
    refused = openenv_here("serve", "no_such_environment", "--fleet", "ray")
    assert refused.returncode == 2
    assert "no_such_environment" in refused.stderr
