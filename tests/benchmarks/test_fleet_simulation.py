"""The simulated fleet, in a small size."""

from benchmarks.fleet_simulation import Costs, Figures, Scenario, Simulation

from openenv.fleet import Autoscaling

SCENARIO = Scenario(
    duration=1500, trainers=4, arrival=120, vector=400, capacity=100, machines=4, cores=8, machine_lost=900
)


def simulated(scenario: Scenario = SCENARIO) -> Figures:
    return Simulation(scenario, Costs(), Autoscaling(2, 32), seed=1).run()


def test_all_trainers_get_their_sessions_and_keep_them_when_a_machine_is_lost() -> None:
    figures = simulated()
    assert max(row[1] for row in figures.series) == SCENARIO.trainers * SCENARIO.vector
    assert figures.died >= 1
    assert figures.lost == 0
    assert sum(sessions for _, sessions in figures.outages) > 0


def test_the_same_seed_plays_the_same_hour() -> None:
    assert simulated() == simulated()


def test_sessions_that_wait_for_longer_than_they_are_kept_are_lost() -> None:
    assert simulated(Scenario(**{**vars(SCENARIO), "window": 1.0})).lost > 0
