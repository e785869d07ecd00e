"""Write tasks.csv: messages of customers, made of a few words. Your own file comes from a spreadsheet or a database."""

import csv
from itertools import product
from pathlib import Path
from random import Random

THINGS = {
    "billing": ("invoice", "refund", "price", "receipt"),
    "delivery": ("parcel", "courier", "box", "address"),
    "account": ("password", "login", "profile", "email"),
}
BEFORE = ("", "The {} is fine. ", "The {} and the {} are fine. ")
ENDS = {
    "My {} is wrong.": "complaint",
    "There is no {}.": "complaint",
    "I have lost my {}.": "complaint",
    "Where is my {}?": "question",
    "Can I change the {}?": "question",
}

chance = Random(1)  # noqa: S311  # a game, not a secret
rows = []
for (team, things), (end, group), level in product(THINGS.items(), ENDS.items(), range(3)):
    others = [thing for other, others in THINGS.items() if other != team for thing in others]
    for thing in things:
        before = BEFORE[level].format(*chance.sample(others, level))
        rows.append([before + end.format(thing), team, level + 1, group])
chance.shuffle(rows)

with Path("tasks.csv").open("w", newline="", encoding="utf-8") as file:
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["question", "answer", "difficulty", "group", "split"])
    for number, row in enumerate(rows):
        table.writerow([*row, ("train", "train", "train", "validation", "test")[number % 5]])
print(f"{len(rows)} tasks in tasks.csv")  # noqa: T201
