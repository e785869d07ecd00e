"""Tasks about tables in CSV files: add up, join, and report."""

from collections import Counter
from random import Random

from ..task_format import Check, FileCheck, TerminalTask

_PRODUCTS = ("apple", "bread", "cheese", "flour", "honey", "juice", "lemon", "milk", "rice", "tea")


def make(chance: Random, difficulty: str) -> TerminalTask:
    """Make a task."""
    products = sorted(chance.sample(_PRODUCTS, 6))
    priced = products if difficulty != "hard" else sorted(chance.sample(products, 4))
    prices = {product: chance.randint(50, 900) for product in priced}
    sales = [
        (f"2026-0{chance.randint(1, 6)}-{chance.randint(1, 28):02}", chance.choice(products), chance.randint(1, 9))
        for _ in range(chance.randint(40, 90))
    ]
    make_one = {"easy": _sum, "medium": _totals, "hard": _month}[difficulty]
    prompt, checks = make_one(chance, sales, prices)
    files = {
        "sales.csv": "date,product,quantity\n" + "".join(f"{date},{name},{count}\n" for date, name, count in sales),
        "prices.csv": "product,cents\n" + "".join(f"{name},{cents}\n" for name, cents in prices.items()),
    }
    return TerminalTask(prompt=prompt, files=files, checks=tuple(checks), family="tables", difficulty=difficulty)


_Sales = list[tuple[str, str, int]]


def _sum(chance: Random, sales: _Sales, prices: dict[str, int]) -> tuple[str, list[Check]]:
    product = chance.choice(sorted(prices))
    total = sum(count for _, name, count in sales if name == product)
    prompt = (
        "The file sales.csv has the columns date, product and quantity. Add up the quantities of the product "
        f"{product}, "
        "and write the sum to answer.txt."
    )
    return prompt, [FileCheck(name="the sum in answer.txt", path="answer.txt", text=str(total))]


def _totals(chance: Random, sales: _Sales, prices: dict[str, int]) -> tuple[str, list[Check]]:
    totals: Counter[str] = Counter()
    for _, name, count in sales:
        totals[name] += count * prices[name]
    prompt = (
        "The file sales.csv has the columns date, product and quantity, prices.csv the columns product and cents, "
        "the price "
        "of one. Write totals.csv: the line `product,cents`, then for each product that was sold, in alphabetical "
        "order, its "
        "name and the cents that its sales come to."
    )
    text = "\n".join(["product,cents", *(f"{name},{totals[name]}" for name in sorted(totals))])
    return prompt, [FileCheck(name="totals.csv", path="totals.csv", text=text)]


def _month(chance: Random, sales: _Sales, prices: dict[str, int]) -> tuple[str, list[Check]]:
    month = chance.choice(sorted({date[:7] for date, _, _ in sales}))
    totals: Counter[str] = Counter()
    for date, name, count in sales:
        if date[:7] == month and name in prices:
            totals[name] += count * prices[name]
    missing = sorted({name for _, name, _ in sales if name not in prices})
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    prompt = (
        "The file sales.csv has the columns date, product and quantity, prices.csv the columns product and cents, "
        "the price "
        f"of one; it lacks some products. Write {month}.csv: the line `product,cents`, then for each product with a "
        "price "
        f"that was sold in {month} its name and the cents that its sales in that month come to, the greatest sum "
        "first, and "
        "in alphabetical order where sums are equal. And write to missing.txt, one to a line and in alphabetical "
        "order, the "
        "products in sales.csv that have no price."
    )
    text = "\n".join(["product,cents", *(f"{name},{totals[name]}" for name in ranked)])
    return prompt, [
        FileCheck(name=f"{month}.csv", path=f"{month}.csv", text=text),
        FileCheck(name="missing.txt", path="missing.txt", text="\n".join(missing)),
    ]
