"""Spending of a training's episodes, as metrics and summed over a run."""

from typing import Any

import pytest

from openenv.core.wire.results import ParticipantUsage
from openenv.records.prices import Prices, Spending, TokenPrice
from openenv.train.episodes.spending import (
    EVALUATION,
    SpendingCounter,
    cost_metrics,
    evaluation_spending_in,
    participants_in,
    spending_in,
    spending_text,
)

PRICES = Prices(models={"judge": TokenPrice(input=1.0, output=10.0)}, sandbox_hour=3600.0, cpu_hour=7200.0)
JUDGE = {"replies": 2, "input_tokens": 1000, "output_tokens": 100, "cost_usd": None, "model": "judge"}


def line(**changes: Any) -> dict[str, Any]:
    return {"input_tokens": 30, "output_tokens": 10, "took_s": 2.0, "cpu_s": 0.5, **changes}


def test_a_step_has_the_sums_of_its_episodes_and_a_run_those_of_its_steps() -> None:
    counter = SpendingCounter("tiny", PRICES)
    counter.add(line(participants={"style.judge": JUDGE}))
    counter.add(line(participants={"style.judge": JUDGE}, failed_participant="style.judge"))
    first = counter.drain()
    assert first == pytest.approx(
        {
            "cost/episodes": 2,
            "cost/input_tokens": 60,
            "cost/output_tokens": 20,
            "cost/seconds": 4,
            "cost/cpu_s": 1,
            "cost/price_usd": 6,
            "participants/style.judge/replies": 4,
            "participants/style.judge/input_tokens": 2000,
            "participants/style.judge/output_tokens": 200,
            "participants/style.judge/cost_usd": 0.004,
            "participants/style.judge/failed": 1,
        }
    )
    assert counter.drain() == {}
    rows = [{"step": 1, **first}, {"step": 2, "loss": 0.5}, {"step": 3, **first}]
    spending = spending_in(rows)
    assert spending == Spending(4, 120, 40, 8.0, 12.0, 2.0)
    assert spending_text(spending) == "$12 (8 s of episodes, 2.0 s of CPU, 120 tokens read and 40 written)"
    assert participants_in(rows) == {"style.judge": (ParticipantUsage(8, 4000, 400, 0.008), 2)}


def test_evaluations_are_summed_apart() -> None:
    scores = [{"cost/episodes": 2.0, "cost/price_usd": 1.0}, {}]
    steps = [
        {"step": 1, "cost/episodes": 8, "cost/price_usd": 4.0},
        cost_metrics(Spending(3, price_usd=0.5), EVALUATION),
    ]
    assert evaluation_spending_in(steps, scores) == Spending(5, price_usd=1.5)
    assert spending_in(steps) == Spending(8, price_usd=4.0)
    assert evaluation_spending_in(steps[:1], scores[1:]) is None


def test_a_number_that_is_not_known_of_one_episode_has_no_sum() -> None:
    counter = SpendingCounter("tiny", PRICES)
    counter.add(line(cpu_s=None, participants={"user": {"replies": 1}}))
    known = counter.drain()
    assert "cost/cpu_s" not in known
    assert "cost/price_usd" not in known
    assert {name for name in known if name.startswith("participants/")} == {"participants/user/replies"}
    counter.add(line(participants={"user": {"replies": 1, "input_tokens": 5, "output_tokens": 1, "cost_usd": 0.5}}))
    rows = [known, counter.drain()]
    spending = spending_in(rows)
    assert spending is not None
    assert (spending.price_usd, spending.cpu_s, spending.seconds) == (None, None, 4.0)
    assert spending_text(spending).startswith("a price that is not known (4 s of episodes")
    assert participants_in(rows) == {"user": (ParticipantUsage(2), 0)}


def test_tokens_of_the_model_have_a_price_where_it_is_named() -> None:
    prices = Prices(models={"tiny": TokenPrice(input=0.0, output=1e6)})
    counter = SpendingCounter("tiny", prices)
    counter.add(line())
    assert counter.drain()["cost/price_usd"] == 10.0
    counter = SpendingCounter("other", prices)
    counter.add(line())
    assert "cost/price_usd" not in counter.drain()


def test_without_prices_only_participants_are_counted() -> None:
    counter = SpendingCounter()
    counter.add(line())
    assert counter.drain() == {}
    assert spending_in([{"step": 1}]) is None
    counter.add(line(participants={"user": JUDGE}))
    assert set(counter.drain()) == {
        f"participants/user/{each}" for each in ("replies", "input_tokens", "output_tokens")
    }
