"""Many servers of one environment behind one address, on Ray."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.fleet.autoscaling import Autoscaling as Autoscaling
    from openenv.fleet.fleet import Fleet as Fleet
    from openenv.fleet.status import FleetStatus as FleetStatus
    from openenv.fleet.status import ReplicaStatus as ReplicaStatus
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.fleet.autoscaling": ("Autoscaling",),
            "openenv.fleet.fleet": ("Fleet",),
            "openenv.fleet.status": ("FleetStatus", "ReplicaStatus"),
        },
    )
