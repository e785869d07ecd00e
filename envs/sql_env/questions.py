# ruff: noqa: S608  # what stands in the places is quoted
"""Questions, and the query that answers each. Players may know both; the data they must query."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from .models import Value


@dataclass(frozen=True)
class Question:
    """Kind of question, with parameters.

    Attributes:
        database: The database that it is about.
        difficulty: ``easy`` looks at one table, ``medium`` joins or groups, ``hard`` needs more than one such step.
        text: Its text; ``{city}`` is a parameter.
        sql: The query that answers it, with the same parameters.
        values: A query whose columns are the parameters and whose rows are values for them.
        ordered: Whether the order of the rows is a part of the answer.
    """

    database: str
    difficulty: str
    text: str
    sql: str
    values: str = "SELECT 1"
    ordered: bool = False

    def asked(self, values: Mapping[str, Value]) -> str:
        """Write the question.

        Args:
            values: Values of its parameters.
        """
        return self.text.format(**values)

    def answered(self, values: Mapping[str, Value]) -> str:
        """Write the query that answers it.

        Args:
            values: Values of its parameters.

        Example:
            >>> Question("shop", "easy", "{city}?", "SELECT {city}").answered({"city": "L'Aquila"})
            "SELECT 'L''Aquila'"
        """
        return self.sql.format(**{place: _literal(value) for place, value in values.items()})

    def values_in(self, text: str) -> dict[str, Value] | None:
        """Read the values off a question; ``None`` where it is another question.

        Args:
            text: The text of the question.

        Example:
            >>> Question("shop", "easy", "Who in {city} since {year}?", "").values_in("Who in X since 2021?")
            {'city': 'X', 'year': 2021}
        """
        found = self._pattern.fullmatch(text)
        return None if found is None else {place: _value(written) for place, written in found.groupdict().items()}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)\}", self.text)  # text and places in turn
        return re.compile(
            "".join(f"(?P<{part}>.+)" if number % 2 else re.escape(part) for number, part in enumerate(parts))
        )


def _literal(value: Value) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _value(written: str) -> Value:
    return int(written) if re.fullmatch(r"\d+", written) else written


_SPENT = "SUM(quantity * unit_price)"
_SOLD = "orders JOIN order_items ON order_id = orders.id JOIN products ON product_id = products.id"

SHOP = (
    Question(
        "shop",
        "easy",
        "How many customers live in {city}?",
        "SELECT COUNT(*) FROM customers WHERE city = {city}",
        "SELECT DISTINCT city FROM customers",
    ),
    Question(
        "shop",
        "easy",
        "What is the price of the product {product}?",
        "SELECT price FROM products WHERE name = {product}",
        "SELECT name AS product FROM products",
    ),
    Question(
        "shop",
        "easy",
        "Which products of the category {category} cost more than {price}? Give their names.",
        "SELECT name FROM products WHERE category = {category} AND price > {price}",
        "SELECT category, CAST(AVG(price) AS INTEGER) AS price FROM products GROUP BY category",
    ),
    Question(
        "shop",
        "easy",
        "How many orders of the year {year} were cancelled?",
        "SELECT COUNT(*) FROM orders WHERE status = 'cancelled' AND ordered_on LIKE {year} || '-%'",
        "SELECT DISTINCT CAST(substr(ordered_on, 1, 4) AS INTEGER) AS year FROM orders",
    ),
    Question(
        "shop",
        "medium",
        "How many orders has each customer from {city} placed? Give name and number, also where it is 0.",
        "SELECT name, COUNT(orders.id) FROM customers LEFT JOIN orders ON customer_id = customers.id "
        "WHERE city = {city} GROUP BY customers.id",
        "SELECT DISTINCT city FROM customers",
    ),
    Question(
        "shop",
        "medium",
        "How many units of the product {product} are in orders that were not cancelled?",
        f"SELECT SUM(quantity) FROM {_SOLD} WHERE name = {{product}} AND status <> 'cancelled'",
        f"SELECT DISTINCT name AS product FROM {_SOLD} WHERE status <> 'cancelled'",
    ),
    Question(
        "shop",
        "medium",
        "What is the average price of the products in each category, to two decimals? Give category and average.",
        "SELECT category, ROUND(AVG(price), 2) FROM products GROUP BY category",
    ),
    Question(
        "shop",
        "medium",
        "How much has the customer {customer} spent in orders that were not cancelled, rounded to two decimals?",
        f"SELECT ROUND({_SPENT}, 2) FROM customers JOIN orders ON customer_id = customers.id "
        "JOIN order_items ON order_id = orders.id WHERE name = {customer} AND status <> 'cancelled'",
        "SELECT DISTINCT name AS customer FROM customers JOIN orders ON customer_id = customers.id "
        "WHERE status <> 'cancelled'",
    ),
    Question(
        "shop",
        "hard",
        "Which products were never ordered by a customer from {city}? Give their names.",
        "SELECT name FROM products WHERE id NOT IN (SELECT product_id FROM order_items "
        "JOIN orders ON order_id = orders.id JOIN customers ON customer_id = customers.id WHERE city = {city})",
        "SELECT city FROM customers JOIN orders ON customer_id = customers.id JOIN order_items ON order_id = orders.id "
        "GROUP BY city HAVING COUNT(DISTINCT product_id) < (SELECT COUNT(*) FROM products)",
    ),
    Question(
        "shop",
        "hard",
        "Which {number} customers have spent the most in orders that were not cancelled? Give their names, who spent "
        "most first; of several who spent the same, the first by name.",
        "SELECT name FROM customers JOIN orders ON customer_id = customers.id JOIN order_items ON order_id = orders.id "
        f"WHERE status <> 'cancelled' GROUP BY customers.id ORDER BY ROUND({_SPENT}, 2) DESC, name LIMIT {{number}}",
        "SELECT 2 AS number UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5",
        ordered=True,
    ),
    Question(
        "shop",
        "hard",
        "Which product of each category sold the most units in orders that were not cancelled? Give category and name; "
        "of several, the first by name.",
        "SELECT category, name FROM (SELECT category, name, ROW_NUMBER() OVER "
        "(PARTITION BY category ORDER BY SUM(quantity) DESC, name) AS place "
        f"FROM {_SOLD} WHERE status <> 'cancelled' GROUP BY products.id) WHERE place = 1",
    ),
    Question(
        "shop",
        "hard",
        "In which months of {year} was more sold than in the average month of that year, by the value of orders "
        "that were not cancelled? Months without such orders do not count. Give them as YYYY-MM.",
        "WITH months AS (SELECT substr(ordered_on, 1, 7) AS month, SUM(quantity * unit_price) AS value FROM orders "
        "JOIN order_items ON order_id = orders.id WHERE status <> 'cancelled' AND ordered_on LIKE {year} || '-%' "
        "GROUP BY month) SELECT month FROM months WHERE value > (SELECT AVG(value) FROM months)",
        "SELECT CAST(substr(ordered_on, 1, 4) AS INTEGER) AS year FROM orders WHERE status <> 'cancelled' "
        "GROUP BY year HAVING COUNT(DISTINCT substr(ordered_on, 1, 7)) > 2",
    ),
)

LIBRARY = (
    Question(
        "library",
        "easy",
        "In which year was the book {title} published?",
        "SELECT published FROM books WHERE title = {title}",
        "SELECT title FROM books",
    ),
    Question(
        "library",
        "easy",
        "How many books of the genre {genre} appeared before {year}?",
        "SELECT COUNT(*) FROM books WHERE genre = {genre} AND published < {year}",
        "SELECT genre, MAX(published) AS year FROM books GROUP BY genre",
    ),
    Question(
        "library",
        "easy",
        "Which authors come from {country}? Give their names.",
        "SELECT name FROM authors WHERE country = {country}",
        "SELECT DISTINCT country FROM authors",
    ),
    Question(
        "library",
        "easy",
        "How many loans have not been returned?",
        "SELECT COUNT(*) FROM loans WHERE returned_on IS NULL",
    ),
    Question(
        "library",
        "medium",
        "Which books by {author} does the library have? Give their titles, the oldest first; of one year, by title.",
        "SELECT title FROM books JOIN authors ON author_id = authors.id WHERE name = {author} "
        "ORDER BY published, title",
        "SELECT DISTINCT name AS author FROM authors JOIN books ON author_id = authors.id",
        ordered=True,
    ),
    Question(
        "library",
        "medium",
        "How often was each book of the genre {genre} lent? Give title and number of loans, also where it is 0.",
        "SELECT title, COUNT(loans.id) FROM books LEFT JOIN loans ON book_id = books.id WHERE genre = {genre} "
        "GROUP BY books.id",
        "SELECT DISTINCT genre FROM books",
    ),
    Question(
        "library",
        "medium",
        "Which books has {member} not returned yet? Give each title once.",
        "SELECT DISTINCT title FROM loans JOIN books ON book_id = books.id JOIN members ON member_id = members.id "
        "WHERE name = {member} AND returned_on IS NULL",
        "SELECT DISTINCT name AS member FROM loans JOIN members ON member_id = members.id WHERE returned_on IS NULL",
    ),
    Question(
        "library",
        "medium",
        "For how many days on average were the books of the genre {genre} lent that have been returned, rounded to one "
        "decimal?",
        "SELECT ROUND(AVG(julianday(returned_on) - julianday(lent_on)), 1) FROM loans "
        "JOIN books ON book_id = books.id WHERE genre = {genre} AND returned_on IS NOT NULL",
        "SELECT DISTINCT genre FROM loans JOIN books ON book_id = books.id WHERE returned_on IS NOT NULL",
    ),
    Question(
        "library",
        "hard",
        "Which members have never borrowed a book of the genre {genre}? Give their names.",
        "SELECT name FROM members WHERE id NOT IN (SELECT member_id FROM loans JOIN books ON book_id = books.id "
        "WHERE genre = {genre})",
        "SELECT genre FROM loans JOIN books ON book_id = books.id GROUP BY genre "
        "HAVING COUNT(DISTINCT member_id) < (SELECT COUNT(*) FROM members)",
    ),
    Question(
        "library",
        "hard",
        "Which author's books were lent most often in each genre? Give genre and name; of several, the first by name.",
        "SELECT genre, name FROM (SELECT genre, name, ROW_NUMBER() OVER "
        "(PARTITION BY genre ORDER BY COUNT(*) DESC, name) AS place FROM loans "
        "JOIN books ON book_id = books.id JOIN authors ON author_id = authors.id GROUP BY genre, authors.id) "
        "WHERE place = 1",
    ),
    Question(
        "library",
        "hard",
        "How many pairs of different members have borrowed the same book by {author}?",
        "SELECT COUNT(*) FROM (SELECT DISTINCT one.member_id, other.member_id FROM loans AS one "
        "JOIN loans AS other ON one.book_id = other.book_id AND one.member_id < other.member_id "
        "JOIN books ON one.book_id = books.id JOIN authors ON author_id = authors.id WHERE name = {author})",
        "SELECT DISTINCT name AS author FROM loans JOIN books ON book_id = books.id "
        "JOIN authors ON author_id = authors.id",
    ),
    Question(
        "library",
        "hard",
        "Which books have no copy left, because as many as there are copies are lent and not returned? Give their "
        "titles; where there are none, an empty list.",
        "SELECT title FROM books JOIN loans ON book_id = books.id WHERE returned_on IS NULL GROUP BY books.id "
        "HAVING COUNT(*) >= copies",
    ),
)

_ROUTES = "flights JOIN airports AS here ON origin = here.code JOIN airports AS there ON destination = there.code"
_BOOKED = "(SELECT COALESCE(SUM(bookings.seats), 0) FROM bookings WHERE flight_id = flights.id AND cancelled = 0)"

FLIGHTS = (
    Question(
        "flights",
        "easy",
        "How many flights depart from the airport {code}?",
        "SELECT COUNT(*) FROM flights WHERE origin = {code}",
        "SELECT code FROM airports",
    ),
    Question(
        "flights",
        "easy",
        "In which city is the airport {code}?",
        "SELECT city FROM airports WHERE code = {code}",
        "SELECT code FROM airports",
    ),
    Question(
        "flights",
        "easy",
        "How long, in minutes, is the longest flight to {code}?",
        "SELECT MAX(minutes) FROM flights WHERE destination = {code}",
        "SELECT DISTINCT destination AS code FROM flights",
    ),
    Question(
        "flights",
        "easy",
        "Which airlines are from {country}? Give their names.",
        "SELECT name FROM airlines WHERE country = {country}",
        "SELECT DISTINCT country FROM airlines",
    ),
    Question(
        "flights",
        "medium",
        "What is the cheapest price of a flight from {here} to {there}?",
        f"SELECT MIN(price) FROM {_ROUTES} WHERE here.city = {{here}} AND there.city = {{there}}",
        f"SELECT DISTINCT here.city AS here, there.city AS there FROM {_ROUTES}",
    ),
    Question(
        "flights",
        "medium",
        "How many flights does each airline operate? Give name and number, also where it is 0.",
        "SELECT name, COUNT(flights.id) FROM airlines LEFT JOIN flights ON airline_id = airlines.id "
        "GROUP BY airlines.id",
    ),
    Question(
        "flights",
        "medium",
        "How many seats are booked on flights of {airline}, cancelled bookings left out?",
        "SELECT SUM(bookings.seats) FROM bookings JOIN flights ON flight_id = flights.id "
        "JOIN airlines ON airline_id = airlines.id WHERE name = {airline} AND cancelled = 0",
        "SELECT DISTINCT name AS airline FROM bookings JOIN flights ON flight_id = flights.id "
        "JOIN airlines ON airline_id = airlines.id WHERE cancelled = 0",
    ),
    Question(
        "flights",
        "medium",
        "To which cities does {passenger} fly, by bookings that are not cancelled? Give each once.",
        "SELECT DISTINCT city FROM bookings JOIN flights ON flight_id = flights.id "
        "JOIN airports ON destination = code WHERE passenger = {passenger} AND cancelled = 0",
        "SELECT DISTINCT passenger FROM bookings WHERE cancelled = 0",
    ),
    Question(
        "flights",
        "hard",
        "Which cities have a flight to {city} but none back from it? Give each once; if there are none, an empty list.",
        f"SELECT DISTINCT here.city FROM {_ROUTES} WHERE there.city = {{city}} "
        f"EXCEPT SELECT there.city FROM {_ROUTES} WHERE here.city = {{city}}",
        f"SELECT DISTINCT there.city AS city FROM {_ROUTES}",
    ),
    Question(
        "flights",
        "hard",
        "Which cities can be reached from {city} with exactly one change, whatever the times, itself left out? "
        "Give each once.",
        "SELECT DISTINCT goal.city FROM flights AS first JOIN flights AS second ON first.destination = second.origin "
        "JOIN airports AS start ON first.origin = start.code JOIN airports AS goal ON second.destination = goal.code "
        "WHERE start.city = {city} AND goal.city <> {city}",
        "SELECT DISTINCT start.city AS city FROM flights AS first "
        "JOIN flights AS second ON first.destination = second.origin "
        "JOIN airports AS start ON first.origin = start.code JOIN airports AS goal ON second.destination = goal.code "
        "WHERE goal.city <> start.city",
    ),
    Question(
        "flights",
        "hard",
        "Which {number} flights have the most seats left, cancelled bookings left out? Give their ids, the one with "
        "most first; of several, the smallest id.",
        f"SELECT id FROM flights ORDER BY seats - {_BOOKED} DESC, id LIMIT {{number}}",
        "SELECT 2 AS number UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5",
        ordered=True,
    ),
    Question(
        "flights",
        "hard",
        "What is the dearest flight of each airline that operates any? Give the airline's name, the flight's id and "
        "its price; of several, the smallest id.",
        "SELECT name, id, price FROM (SELECT airlines.name, flights.id, price, ROW_NUMBER() OVER "
        "(PARTITION BY airlines.id ORDER BY price DESC, flights.id) AS place FROM flights "
        "JOIN airlines ON airline_id = airlines.id) WHERE place = 1",
    ),
)

QUESTIONS = (*FLIGHTS, *LIBRARY, *SHOP)
