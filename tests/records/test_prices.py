"""Prices from files, and what episodes have cost by them."""

from pathlib import Path

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.records.prices import Prices, Spending, TokenPrice, read_prices

LINES = [
    {"input_tokens": 1000, "output_tokens": 500, "cost_usd": 0.25, "took_s": 36.0},
    {"input_tokens": 3000, "output_tokens": 500, "cost_usd": 0.25, "took_s": 36.0},
]
PRICE = TokenPrice(input=1.0, output=4.0)
BY_HOUR = Prices(models={"m": PRICE}, sandbox_hour=0.5)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prices.yaml", "models:\n  a/b: {input: 0.5, output: 2}\nsandbox_hour: 0.25\n"),
        ("prices.json", '{"models": {"a/b": {"input": 0.5, "output": 2}}, "sandbox_hour": 0.25}'),
        ("prices.toml", 'sandbox_hour = 0.25\n[models."a/b"]\ninput = 0.5\noutput = 2\n'),
    ],
)
def test_a_file_in_each_form(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_prices(tmp_path / name) == Prices(models={"a/b": TokenPrice(input=0.5, output=2)}, sandbox_hour=0.25)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("prices.txt", "", "ends in .yaml"),
        ("prices.yaml", "models: {m: {input: -1, output: 2}}", "models.m.input is not as prices are written"),
        ("prices.yaml", "models: {m: {input: 1}}", "models.m.output"),
        ("prices.yaml", "gpu_hour: 3", "gpu_hour"),
        ("prices.yaml", "models: {m: {input: .inf, output: 2}}", "models.m.input"),
    ],
)
def test_what_is_none_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_prices(tmp_path / name)


def test_spending_is_by_the_file_and_else_what_the_server_says() -> None:
    reported = Spending.of_lines(LINES, "m", None)
    assert reported == Spending(2, 4000, 1000, 72.0, 0.5)
    assert reported.price_of_one == 0.25
    assert Spending.of_lines(LINES, "m", Prices(models={"m": PRICE})).price_usd == pytest.approx(0.008)
    assert Spending.of_lines(LINES, "m", Prices(models={"other": PRICE})).price_usd == 0.5
    assert Spending.of_lines(LINES, "m", BY_HOUR).price_usd == pytest.approx(0.008 + 72 / 3600 * 0.5)


def test_cpu_has_a_price_of_its_own() -> None:
    lines = [{**line, "cpu_s": 18.0} for line in LINES]
    found = Spending.of_lines(lines, None, Prices(sandbox_hour=0.5, cpu_hour=1.0))
    assert found.cpu_s == 36.0
    assert found.price_usd == pytest.approx(0.02)
    assert Spending.of_lines([*lines, LINES[0]], None, Prices(cpu_hour=1.0)).price_usd is None, "of one it is not known"
    assert Spending.of_lines([*lines, LINES[0]], None, BY_HOUR).price_usd == pytest.approx(0.015)


def test_an_unknown_price_is_none_and_not_nothing() -> None:
    unknown = [LINES[0], {"took_s": 36.0}]
    assert Spending.of_lines(unknown, "m", BY_HOUR) == Spending(2, None, None, 72.0, None)
    assert Spending.of_lines([{}], None, None).price_of_one is None
    assert Spending.of_lines([{}], None, BY_HOUR).price_usd is None, "the seconds are not on record"
    assert Spending.of_lines(LINES, None, BY_HOUR).price_usd == pytest.approx(0.01), "a player has no tokens to pay"
