"""``python -m benchmarks.fleet_simulation``: a fleet of 100,000 sessions, simulated with costs that were measured.

Placement and autoscaling are those of ``openenv.fleet`` itself; time, servers, clients and failures are simulated. In
the hour that is played, trainers come within ten minutes, hold vectors for a while, and come again; now and then a
replica dies, and one machine is lost with all of its replicas.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any

import matplotlib.pyplot as plt
import simpy
import typer
from rich.console import Console
from rich.table import Table

from openenv.fleet.autoscaling import Autoscaling
from openenv.fleet.placement import Load, granted, least_loaded

Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class Costs:
    """What was measured with ``benchmarks.fleet``, on a machine that was busy with other work, in seconds.

    Attributes:
        handshake: Of the fleet's address, for one placement; measured was all that it takes to open one session.
        open: Of a replica, for one session.
        recover: Of a replica, for one session that it rebuilds from the journal.
        start: From the decision to start a replica until it serves, on a machine with a free core.
        look: Between two looks at a replica; so long its death goes unnoticed, and its load is out of date.
    """

    handshake: float = 4.5e-3
    open: float = 1.0e-3
    recover: float = 3.0e-3
    start: float = 4.0
    look: float = 0.5


@dataclass(frozen=True)
class Scenario:
    """What is played.

    Attributes:
        duration: Seconds.
        trainers: How many there are.
        arrival: Seconds within which all of them come.
        pause: Seconds between a trainer's vectors, on average.
        vector: Sessions of each.
        stays: Seconds for which a trainer stays, on average.
        capacity: Sessions of a replica.
        machines: Machines that Ray has.
        cores: Of each, which is also how many replicas have room there.
        replica_lives: Seconds until a replica dies, on average.
        machine_lost: When a machine is lost.
        window: Seconds after which a session is lost that was not taken up again (``resume_window_s``).
    """

    duration: float = 3600.0
    trainers: int = 50
    arrival: float = 600.0
    pause: float = 20.0
    vector: int = 2000
    stays: float = 1200.0
    capacity: int = 1000
    machines: int = 12
    cores: int = 16
    replica_lives: float = 8 * 3600.0
    machine_lost: float = 2400.0
    window: float = 60.0


@dataclass(eq=False)
class Machine:
    """A machine of Ray's, whose cores start so many replicas at once."""

    starting: simpy.Resource
    replicas: int = 0
    is_lost: bool = False


@dataclass(eq=False)
class Replica:
    """A server, as it is and as the fleet last saw it."""

    machine: Machine
    serves: bool = False
    taken: int = 0
    seen: int = 0
    away: int = 0
    heir: "Replica | None" = None

    def last_heir(self) -> "Replica":
        """Return what has taken its place, or itself."""
        replica = self
        while replica.heir is not None:
            replica = replica.heir
        return replica


@dataclass
class Figures:
    """What is noted on the way; seconds in the first column of a series."""

    series: list[tuple[float, int, int, int, int, float]] = field(default_factory=list)
    opened_in: list[float] = field(default_factory=list)
    outages: list[tuple[float, int]] = field(default_factory=list)
    handshakes: int = 0
    waits: int = 0
    lost: int = 0
    died: int = 0


class Simulation:
    """One hour of a fleet.

    Args:
        scenario: What is played.
        costs: What was measured.
        scaling: Bounds and free share of the fleet.
        seed: Of all that is left to chance.
    """

    def __init__(self, scenario: Scenario, costs: Costs, scaling: Autoscaling, seed: int) -> None:
        self.figures = Figures()
        self._scenario, self._costs, self._scaling = scenario, costs, scaling
        self._dice = Random(seed)
        self._world = simpy.Environment()
        self._gateway = simpy.Resource(self._world, 1)
        self._machines = [Machine(simpy.Resource(self._world, scenario.cores)) for _ in range(scenario.machines)]
        self._replicas: list[Replica] = []
        self._refused = 0
        self._calm_since = 0.0
        self._target = scaling.min_replicas

    def run(self) -> Figures:
        """Play it."""
        for _ in range(self._target):
            self._world.process(self._start(None))
        self._world.process(self._look())
        for _ in range(self._scenario.trainers):
            self._world.process(self._train())
        self._world.process(self._lose_a_machine())
        self._world.run(self._scenario.duration)
        return self.figures

    def _serving(self) -> list[Replica]:
        return [replica for replica in self._replicas if replica.serves]

    def _train(self) -> Process:
        """Hold one vector after another."""
        yield self._world.timeout(self._dice.uniform(0, self._scenario.arrival))
        while True:
            yield from self._hold_a_vector()
            yield self._world.timeout(self._dice.expovariate(1 / self._scenario.pause))

    def _hold_a_vector(self) -> Process:
        """Open a vector, hold it for a while, and close it."""
        began, left, held = self._world.now, self._scenario.vector, list[tuple[Replica, int]]()
        while left:
            with self._gateway.request() as turn:
                yield turn
                yield self._world.timeout(self._costs.handshake)
            self.figures.handshakes += 1
            chosen, count = self._place(left)
            if count == 0:
                self.figures.waits += 1
                yield self._world.timeout(5.0)  # in line at one of them
                continue
            chosen.taken += count
            yield self._world.timeout(count * self._costs.open)
            held.append((chosen, count))
            left -= count
        self.figures.opened_in.append(self._world.now - began)
        yield self._world.timeout(self._dice.expovariate(1 / self._scenario.stays))
        for replica, count in held:
            replica.last_heir().taken -= count

    def _place(self, wanted: int) -> tuple[Replica, int]:
        serving = self._serving()
        # What was granted counts at once, as in the fleet; what was given back is seen at the next look.
        loads = [Load(max(replica.taken, replica.seen), self._scenario.capacity) for replica in serving]
        if not loads:
            return self._replicas[0], 0
        chosen = least_loaded(loads)
        self._refused = max(self._refused, wanted - sum(load.free for load in loads))
        return serving[chosen], granted(loads, chosen, wanted)

    def _start(self, died: Replica | None) -> Process:
        """Start a replica, in the place of one that has died or beside the others."""
        machines = [machine for machine in self._machines if not machine.is_lost]
        machine = min(machines, key=lambda machine: machine.replicas)
        machine.replicas += 1
        replica = Replica(machine)
        self._replicas.append(replica)
        began = self._world.now
        if died is not None:
            died.heir, replica.taken, replica.away = replica, died.taken, died.taken
        with machine.starting.request() as core:
            yield core
            yield self._world.timeout(self._costs.start * self._dice.uniform(0.8, 1.5))
        replica.serves = True
        if replica.away:
            yield self._world.timeout(replica.away * self._costs.recover)
            outage = self._world.now - began + self._costs.look
            self.figures.outages.append((outage, replica.away))
            if outage > self._scenario.window:
                self.figures.lost += replica.away
            replica.away = 0
        yield self._world.timeout(self._dice.expovariate(1 / self._scenario.replica_lives))
        if replica.serves:
            self._world.process(self._die(replica))

    def _die(self, replica: Replica) -> Process:
        replica.serves = False
        self.figures.died += 1
        replica.machine.replicas -= 1
        replica.away = replica.taken
        yield self._world.timeout(self._costs.look)
        self._replicas.remove(replica)
        self._world.process(self._start(replica))

    def _lose_a_machine(self) -> Process:
        yield self._world.timeout(self._scenario.machine_lost)
        machine = max(self._machines, key=lambda machine: machine.replicas)
        machine.is_lost = True
        for replica in [replica for replica in self._serving() if replica.machine is machine]:
            self._world.process(self._die(replica))

    def _look(self) -> Process:
        """Look at all replicas, and have as many as the sessions need."""
        while True:
            yield self._world.timeout(self._costs.look)
            for replica in self._replicas:
                replica.seen = replica.taken
            self._fit()
            self._note()

    def _fit(self) -> None:
        sessions = sum(replica.taken for replica in self._replicas)
        refused, self._refused = self._refused, 0
        needed = self._scaling.needed(sessions + refused, self._scenario.capacity)
        if needed > self._target:
            for _ in range(needed - self._target):
                self._world.process(self._start(None))
            self._target, self._calm_since = needed, self._world.now
        elif not self._scaling.has_one_too_many(self._target, sessions, self._scenario.capacity):
            self._calm_since = self._world.now
        elif self._world.now - self._calm_since >= self._scaling.calm_s:
            self._retire()

    def _retire(self) -> None:
        """Take the emptiest replica away; its sessions move to the next one."""
        by_load = sorted(self._serving(), key=lambda replica: replica.taken)
        emptiest, next_one = by_load[0], by_load[1]
        if emptiest.taken > self._scenario.capacity - next_one.taken:
            return
        self.figures.outages.append((emptiest.taken * self._costs.recover, emptiest.taken))
        next_one.taken += emptiest.taken
        emptiest.taken, emptiest.serves, emptiest.heir = 0, False, next_one
        emptiest.machine.replicas -= 1
        self._replicas.remove(emptiest)
        self._target, self._calm_since = self._target - 1, self._world.now

    def _note(self) -> None:
        serving = self._serving()
        taken = [replica.taken for replica in serving] or [0]
        sessions = sum(replica.taken for replica in self._replicas)
        away = sum(replica.away for replica in self._replicas)
        fullest = max(taken) / (sum(taken) / len(taken)) if sum(taken) else 1.0
        capacity = len(serving) * self._scenario.capacity
        self.figures.series.append((self._world.now, sessions, capacity, len(serving), away, fullest))


def draw(figures: Figures, path: Path) -> None:
    """Draw sessions and places, replicas, and sessions that wait for another replica, over time."""
    minutes = [row[0] / 60 for row in figures.series]
    figure, (places, replicas, away) = plt.subplots(3, 1, sharex=True, figsize=(8, 8), constrained_layout=True)
    places.plot(minutes, [row[2] / 1000 for row in figures.series], label="places", color="0.7")
    places.plot(minutes, [row[1] / 1000 for row in figures.series], label="sessions")
    places.set_ylabel("thousand")
    places.legend(loc="lower right")
    replicas.plot(minutes, [row[3] for row in figures.series])
    replicas.set_ylabel("replicas that serve")
    away.plot(minutes, [row[4] / 1000 for row in figures.series], color="tab:red")
    away.set_ylabel("thousand sessions on their way\nto another replica")
    away.set_xlabel("minutes")
    for axes in (places, replicas, away):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def table_of(figures: Figures, scenario: Scenario) -> Table:
    """Put what came of it into a table."""
    height = max(row[1] for row in figures.series)
    outages = sorted(seconds for seconds, sessions in figures.outages for _ in range(sessions // 100 + 1))
    rows = {
        "sessions at once, at the height": f"{height:,}",
        "replicas at the height": f"{max(row[3] for row in figures.series)}",
        f"vectors of {scenario.vector:,} sessions opened": f"{len(figures.opened_in):,}",
        "time to open a vector, median and longest": _two(figures.opened_in, "s"),
        "handshakes": f"{figures.handshakes:,}, {figures.handshakes / len(figures.opened_in):.0f} for a vector",
        "times that a client found no place": f"{figures.waits:,}",
        "replicas that died": f"{figures.died}",
        "a session's pause when its replica goes, median and longest": _two(outages, "s"),
        "sessions lost": f"{figures.lost:,}",
        "fullest replica over the mean, at the end": f"{figures.series[-1][5]:.2f}",
    }
    table = Table("", "")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _two(values: list[float], unit: str) -> str:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.1f} {unit}, {ordered[-1]:.1f} {unit}" if ordered else "-"


def main(
    sessions: Annotated[int, typer.Option(help="Sessions at once, about.")] = 100_000,
    capacity: Annotated[int, typer.Option(help="Sessions of a replica.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of all that is left to chance.")] = 1,
    picture: Annotated[Path | None, typer.Option(help="Where to draw it, as PNG.")] = None,
) -> None:
    """Simulate an hour and print what came of it."""
    trainers = max(1, sessions // Scenario.vector)
    machines = max(2, -(-sessions * 3 // (2 * capacity * Scenario.cores)) + 1)
    scenario = Scenario(trainers=trainers, capacity=capacity, machines=machines)
    scaling = Autoscaling(2, scenario.machines * scenario.cores)
    figures = Simulation(scenario, Costs(), scaling, seed).run()
    Console().print(table_of(figures, scenario))
    if picture is not None:
        draw(figures, picture)


if __name__ == "__main__":
    typer.run(main)
