"""The databases that tasks are about, filled by chance."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from random import Random

Row = tuple[str | int | float | None, ...]
Tables = Mapping[str, Sequence[Row]]

# fmt: off
_GIVEN = (
    "Ada", "Amara", "Bela", "Bruno", "Carla", "Chidi", "Dana", "Diego", "Ebba", "Emre", "Farah", "Finn", "Greta",
    "Hugo", "Ines", "Ivo", "Jana", "Jonas", "Kaori", "Lena", "Leo", "Mara", "Mateo", "Nadia", "Noor", "Olga",
    "Oskar", "Paulo", "Priya", "Quinn", "Rosa", "Ruben", "Sanna", "Tariq", "Uma", "Viktor", "Wanda", "Ximena",
    "Yara", "Zeno",
)
_FAMILY = (
    "Abbott", "Bianchi", "Castro", "D'Angelo", "Eriksen", "Fischer", "Greco", "Haddad", "Ibsen", "Jansen",
    "Kowalski", "Larsen", "Moreau", "Novak", "O'Brien", "Petrov", "Qureshi", "Rossi", "Sato", "Tanaka", "Ueda",
    "Vargas", "Weber", "Xu", "Yilmaz", "Zhang",
)
# fmt: on

_SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, city TEXT NOT NULL, joined_on TEXT NOT NULL);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL, price REAL NOT NULL);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  ordered_on TEXT NOT NULL, -- YYYY-MM-DD
  status TEXT NOT NULL CHECK (status IN ('open', 'delivered', 'cancelled'))
);
CREATE TABLE order_items (
  order_id INTEGER NOT NULL REFERENCES orders (id),
  product_id INTEGER NOT NULL REFERENCES products (id),
  quantity INTEGER NOT NULL,
  unit_price REAL NOT NULL, -- when it was ordered
  PRIMARY KEY (order_id, product_id)
);
"""
_CITIES = ("Aarhus", "Bergen", "Coimbra", "Dresden", "Évora", "Ghent", "L'Aquila", "Porto")
_GOODS = {
    "garden": ("hose", "rake", "shears", "spade", "wheelbarrow"),
    "kitchen": ("kettle", "pan", "sieve", "teapot", "whisk"),
    "office": ("binder", "desk lamp", "ink pad", "stapler", "typewriter"),
    "travel": ("compass", "lantern", "rucksack", "tent", "umbrella"),
}
_MAKES = ("Classic", "Compact", "Double", "Nordic", "Royal")

_LIBRARY = """
CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, country TEXT NOT NULL, born INTEGER NOT NULL);
CREATE TABLE books (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL UNIQUE,
  author_id INTEGER NOT NULL REFERENCES authors (id),
  genre TEXT NOT NULL,
  published INTEGER NOT NULL, -- the year
  copies INTEGER NOT NULL
);
CREATE TABLE members (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, joined_on TEXT NOT NULL);
CREATE TABLE loans (
  id INTEGER PRIMARY KEY,
  book_id INTEGER NOT NULL REFERENCES books (id),
  member_id INTEGER NOT NULL REFERENCES members (id),
  lent_on TEXT NOT NULL, -- YYYY-MM-DD
  returned_on TEXT -- NULL while it is lent
);
"""
_COUNTRIES = ("Chile", "Finland", "Ghana", "India", "Japan", "Portugal")
_GENRES = ("crime", "history", "novel", "poetry", "travel")
_TITLES = (
    ("The Long", "The Silent", "A Borrowed", "The Last", "Another", "The Glass", "A Winter's"),
    ("Harbour", "Orchard", "Journey", "Letter", "Garden", "Mirror", "Lighthouse", "Tale"),
)

_FLIGHTS = """
CREATE TABLE airports (code TEXT PRIMARY KEY, city TEXT NOT NULL UNIQUE, country TEXT NOT NULL);
CREATE TABLE airlines (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, country TEXT NOT NULL);
CREATE TABLE flights (
  id INTEGER PRIMARY KEY,
  airline_id INTEGER NOT NULL REFERENCES airlines (id),
  origin TEXT NOT NULL REFERENCES airports (code),
  destination TEXT NOT NULL REFERENCES airports (code),
  departs_at TEXT NOT NULL, -- YYYY-MM-DD HH:MM
  minutes INTEGER NOT NULL,
  seats INTEGER NOT NULL,
  price REAL NOT NULL
);
CREATE TABLE bookings (
  id INTEGER PRIMARY KEY,
  flight_id INTEGER NOT NULL REFERENCES flights (id),
  passenger TEXT NOT NULL,
  seats INTEGER NOT NULL,
  cancelled INTEGER NOT NULL CHECK (cancelled IN (0, 1))
);
"""
_AIRPORTS = (
    ("ACC", "Accra", "Ghana"),
    ("DEL", "Delhi", "India"),
    ("HEL", "Helsinki", "Finland"),
    ("KIX", "Osaka", "Japan"),
    ("LIS", "Lisbon", "Portugal"),
    ("NDR", "N'Djamena", "Chad"),
    ("OPO", "Porto", "Portugal"),
    ("SCL", "Santiago", "Chile"),
    ("YUL", "Montréal", "Canada"),
)
_AIRLINES = ("Albatross Air", "Blue Heron", "Cormorant", "Dipper & Daughters", "Egret Lines", "Fulmar", "Gannet")


def make_database(name: str, chance: Random) -> sqlite3.Connection:
    """Make a database and fill it.

    Args:
        name: One of ``Database`` in ``models``.
        chance: Decides about the rows.

    Returns:
        A connection to it, in memory.
    """
    schema, rows = _MAKERS[name]
    connection = sqlite3.connect(":memory:")
    connection.executescript(schema)
    for table, filled in rows(chance).items():
        marks = ", ".join("?" * len(filled[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", filled)  # noqa: S608  # a name of ours
    connection.commit()
    return connection


def _shop(chance: Random) -> Tables:
    customers = [(number, name, chance.choice(_CITIES), _day(chance, 2020)) for number, name in _people(chance, 12, 30)]
    goods = [(f"{make} {good}", category) for category, group in _GOODS.items() for good in group for make in _MAKES]
    products = [
        (number, good, category, _price(chance, 2, 200))
        for number, (good, category) in enumerate(chance.sample(goods, chance.randint(15, 30)), 1)
    ]
    status = ("open", "delivered", "delivered", "delivered", "cancelled")
    orders = [
        (number, chance.choice(customers)[0], _day(chance, 2022), chance.choice(status))
        for number in range(1, chance.randint(40, 90))
    ]
    items = [
        (order[0], product[0], chance.randint(1, 5), round(product[3] * chance.choice((0.9, 1.0, 1.0)), 2))
        for order in orders
        for product in chance.sample(products, chance.randint(1, 4))
    ]
    return {"customers": customers, "products": products, "orders": orders, "order_items": items}


def _library(chance: Random) -> Tables:
    authors = [
        (number, name, chance.choice(_COUNTRIES), chance.randint(1900, 1960)) for number, name in _people(chance, 6, 12)
    ]
    titles = [f"{first} {second}" for first in _TITLES[0] for second in _TITLES[1]]
    books = [
        (number, title, author[0], chance.choice(_GENRES), author[3] + chance.randint(20, 60), chance.randint(1, 3))
        for number, title in enumerate(chance.sample(titles, chance.randint(20, 40)), 1)
        for author in [chance.choice(authors)]
    ]
    members = [(number, name, _day(chance, 2019)) for number, name in _people(chance, 8, 20)]
    loans = [
        (number, chance.choice(books)[0], chance.choice(members)[0], lent_on, returned_on)
        for number, (lent_on, returned_on) in enumerate(_loan_times(chance, chance.randint(50, 120)), 1)
    ]
    return {"authors": authors, "books": books, "members": members, "loans": loans}


def _flights(chance: Random) -> Tables:
    airports = chance.sample(_AIRPORTS, chance.randint(6, len(_AIRPORTS)))
    airlines = [
        (number, name, chance.choice(_COUNTRIES))
        for number, name in enumerate(chance.sample(_AIRLINES, chance.randint(4, len(_AIRLINES))), 1)
    ]
    flights = [
        (number, chance.choice(airlines)[0], origin[0], destination[0], _departure(chance), *_offer(chance))
        for number in range(1, chance.randint(25, 60))
        for origin, destination in [chance.sample(airports, 2)]
    ]
    passengers = [name for _, name in _people(chance, 10, 25)]
    bookings = [
        (
            number,
            chance.choice(flights)[0],
            chance.choice(passengers),
            chance.randint(1, 4),
            int(chance.random() < 0.2),
        )
        for number in range(1, chance.randint(60, 120))
    ]
    return {"airports": airports, "airlines": airlines, "flights": flights, "bookings": bookings}


_MAKERS: Mapping[str, tuple[str, Callable[[Random], Tables]]] = {
    "flights": (_FLIGHTS, _flights),
    "library": (_LIBRARY, _library),
    "shop": (_SHOP, _shop),
}


def _people(chance: Random, fewest: int, most: int) -> Iterator[tuple[int, str]]:
    names = chance.sample([f"{given} {family}" for given in _GIVEN for family in _FAMILY], chance.randint(fewest, most))
    return enumerate(names, 1)


def _day(chance: Random, year: int) -> str:
    """Return a day of this year or of the two that follow."""
    return (date(year, 1, 1) + timedelta(days=chance.randrange(3 * 365))).isoformat()


def _price(chance: Random, least: int, most: int) -> float:
    return chance.randrange(least * 100, most * 100) / 100


def _loan_times(chance: Random, count: int) -> Iterator[tuple[str, str | None]]:
    for _ in range(count):
        lent_on = _day(chance, 2022)
        days = chance.randint(1, 60)
        kept = chance.random() < 0.2
        yield lent_on, None if kept else (date.fromisoformat(lent_on) + timedelta(days=days)).isoformat()


def _departure(chance: Random) -> str:
    return f"{_day(chance, 2024)} {chance.randint(5, 22):02}:{chance.randrange(0, 60, 5):02}"


def _offer(chance: Random) -> tuple[int, int, float]:
    """Return minutes, seats and price of a flight."""
    return chance.randint(60, 900), chance.choice((20, 40, 80)), _price(chance, 40, 900)
