"""``python -m benchmarks.text_index FILE WORD``: what an index of the texts in traces would cost and save.

The texts of a file of traces are put into indexes of SQLite's FTS5, each in a file of its own that is removed again. Of
an index by three letters, which finds any part of a text as the search of traces does, there is one with a row for each
part of an episode and one with a row for each 16 KiB; an index by words finds whole words only. None holds positions.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from openenv.core.env_server.traces.sqlite import connected

_LETTERS = "trigram case_sensitive 1"
_KINDS = {
    "three letters, by part": (_LETTERS, 1),
    "three letters, by 16 KiB": (_LETTERS, 16 * 1024),
    "words, by part": ("unicode61", 1),
}
_ROWS_IN_COMMIT = 200


def main(
    file: Annotated[Path, typer.Argument(help="File of traces.")],
    word: Annotated[str, typer.Argument(help="Word to search for.")],
    megabytes: Annotated[int, typer.Option(help="Size of the texts to index, at most.")] = 40,
) -> None:
    """Build the indexes, and search in the file and in them."""
    with connected(file) as connection:
        begun = time.process_time()
        for _ in connection.execute("SELECT DISTINCT episode FROM part WHERE instr(content, ?)", (word.encode(),)):
            pass
        seconds = time.process_time() - begun
        (size,) = connection.execute("SELECT sum(length(content)) FROM part").fetchone()
        typer.echo(f"{'search without an index':<28}{seconds / size * 1e9:>8.1f} ns of CPU a byte")
        texts = list(_texts(connection, megabytes * 1_000_000))
    for name, (tokenizer, row_size) in _KINDS.items():
        with TemporaryDirectory() as folder:
            _measure(name, Path(folder) / "index.db", tokenizer, list(_rows(texts, row_size)), word)


def _texts(connection: sqlite3.Connection, most: int) -> Iterator[str]:
    for (content,) in connection.execute("SELECT content FROM part"):
        if most <= 0:
            return
        yield content.decode()
        most -= len(content)


def _rows(texts: list[str], size: int) -> Iterator[str]:
    """Join texts to rows of some size."""
    row: list[str] = []
    length = 0
    for text in texts:
        row.append(text)
        length += len(text)
        if length >= size:
            yield "".join(row)
            row, length = [], 0
    yield "".join(row)


def _measure(name: str, path: Path, tokenizer: str, rows: list[str], word: str) -> None:
    index = sqlite3.connect(path, isolation_level=None)
    index.execute("PRAGMA journal_mode = WAL")
    index.execute("PRAGMA synchronous = NORMAL")
    index.execute(
        f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='{tokenizer}', detail=none, columnsize=0)"
    )
    begun = time.process_time()
    numbered = enumerate(rows)
    while some := list(islice(numbered, _ROWS_IN_COMMIT)):
        index.execute("BEGIN")
        index.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", some)
        index.execute("COMMIT")
    seconds = time.process_time() - begun
    (pages,) = index.execute("PRAGMA page_count").fetchone()
    size = sum(map(len, rows))
    begun = time.process_time()
    found = index.execute("SELECT count(*) FROM texts WHERE texts MATCH ?", (_match(tokenizer, word),)).fetchone()[0]
    took = time.process_time() - begun
    index.close()
    typer.echo(
        f"{name:<28}{seconds / size * 1e9:>8.1f} ns of CPU a byte to build, {pages * 4096 / size:.0%} of the texts; "
        f"{found} of {len(rows)} rows in {took * 1000:.1f} ms"
    )


def _match(tokenizer: str, word: str) -> str:
    terms: Iterable[str] = (word[at : at + 3] for at in range(len(word) - 2)) if tokenizer == _LETTERS else [word]
    return " AND ".join(f'"{term}"' for term in terms)


if __name__ == "__main__":
    typer.run(main)
