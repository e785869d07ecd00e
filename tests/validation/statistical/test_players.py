"""Players that are worse than the scripted one."""

from typing import Any

from openenv.validation.statistical.players import BlindPlayer, WeakPlayer


def test_a_weak_player_has_a_share_of_random_actions() -> None:
    player = WeakPlayer(lambda seen: "scripted", lambda seen: "random", 0.25, seed=1, answer_s=60.0)
    chosen = [player(None) for _ in range(400)]
    assert 70 < chosen.count("random") < 130


def test_a_weak_player_continues_at_random_where_the_scripted_one_is_lost() -> None:
    actions = iter(["scripted"])

    def scripted(seen: Any) -> str:
        return next(actions)

    player = WeakPlayer(scripted, lambda seen: "random", 0.0, seed=1, answer_s=60.0)
    assert [player(None) for _ in range(3)] == ["scripted", "random", "random"]


def test_a_blind_player_repeats_its_last_action() -> None:
    player = BlindPlayer([{"way": "left"}, {"way": "right"}])
    assert [player(None)["way"] for _ in range(3)] == ["left", "right", "right"]
