"""Status of a fleet."""

from enum import StrEnum

from pydantic import BaseModel, Field


class Phase(StrEnum):
    """Phase of a replica, from its start to its end."""

    STARTING = "starting"
    SERVING = "serving"
    RETIRING = "retiring"
    """It gets no new sessions, and ends once it has none."""
    DRAINING = "draining"
    """Its server has the request to end: it lets the episodes under way end first."""
    ENDED = "ended"


class ReplicaStatus(BaseModel):
    """Status of a server of a fleet."""

    number: int = Field(description="its number, which no other replica of the fleet ever has")
    phase: Phase = Field(description="starting, serving, retiring, draining or ended")
    address: str = Field(description="where its clients reach it; empty until it serves")
    sessions: int = Field(description="sessions that it holds, as far as is known")
    capacity: int = Field(description="sessions that it may hold; 0 until it serves")
    pid: int = Field(description="its process; 0 until it serves")
    node: str = Field(description="address of its machine; empty until it serves")


class FleetStatus(BaseModel):
    """Status of a fleet and its servers."""

    address: str = Field(description="the one address that clients are given")
    target: int = Field(description="replicas that there are to be")
    sessions: int = Field(description="sessions that all replicas hold")
    capacity: int = Field(description="sessions that those may hold that take new ones")
    replicas: list[ReplicaStatus] = Field(description="those that have not ended, in the order of their numbers")
