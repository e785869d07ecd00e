"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: Figures per row and server.
        growth_rounds: Figures per point of how cost grows; at most ``rounds``.
        cpu_steps: Steps, of all sessions together, for a figure of CPU per step.
        record_steps: Steps, of all sessions together, of a turn with a journal or traces, and of one without.
        threaded_steps: Steps of each of the 64 clients in threads in a round.
        vector_steps: Steps of each of the 64 environments of a vector in a round; a tenth of it with public clients.
        picture_steps: Steps of each of the 8 environments with pictures in a round.
        turns: Turns of 64 rollouts in a round.
        round_trips: Steps of the one session in a round.
        openings: Sessions opened and reset, one after another, in a round.
        idle_sessions: Sessions whose memory is measured.
        imports: Fresh interpreters that import the package in a round.
        growth_steps: Steps, of all sessions together, for a point of how cost grows.
        least_steps: Steps of each session for such a point, at the least, and before it.
        most_sockets: Sockets up to which the cost of our legacy wire is followed.
        most_public_sockets: The same of the public server; 0 leaves it out.
        worker_steps: Steps, of all sessions together, for a figure of what workers carry.
    """

    rounds: int
    growth_rounds: int
    cpu_steps: int
    record_steps: int
    threaded_steps: int
    vector_steps: int
    picture_steps: int
    turns: int
    round_trips: int
    openings: int
    idle_sessions: int
    imports: int
    growth_steps: int
    least_steps: int
    most_sockets: int
    most_public_sockets: int
    worker_steps: int


FULL = Effort(
    rounds=3,
    growth_rounds=2,
    cpu_steps=16_000,
    record_steps=100_000,
    threaded_steps=100,
    vector_steps=500,
    picture_steps=1000,
    turns=1,
    round_trips=2000,
    openings=200,
    idle_sessions=500,
    imports=2,
    growth_steps=10_000,
    least_steps=5,
    most_sockets=1000,
    most_public_sockets=100,
    worker_steps=20_000,
)
QUICK = Effort(
    rounds=1,
    growth_rounds=1,
    cpu_steps=3_000,
    record_steps=4_000,
    threaded_steps=10,
    vector_steps=50,
    picture_steps=50,
    turns=1,
    round_trips=200,
    openings=20,
    idle_sessions=50,
    imports=1,
    growth_steps=2_000,
    least_steps=1,
    most_sockets=100,
    most_public_sockets=0,
    worker_steps=2_000,
)
