from terminal_env import SubmitAction
from terminal_env.models import TerminalObservation
from terminal_env.server.rewards import terminal_reward


def test_it_is_the_share_of_the_checks_that_hold() -> None:
    reward = terminal_reward()
    assert reward(SubmitAction(), TerminalObservation(checks={"first": True, "second": False})) == 0.5
    assert reward.component_scores() == {"kept": 1.0, "passed": 0.5}


def test_all_is_lost_where_something_changed_that_had_to_stay() -> None:
    reward = terminal_reward()
    lost = TerminalObservation(
        checks={"first": True, "the notes are as before": False}, lost=["the notes are as before"]
    )
    assert reward(SubmitAction(), lost) == 0.0
    assert reward.component_scores() == {"kept": 0.0}
