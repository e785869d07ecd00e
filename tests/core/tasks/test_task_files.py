"""Tables of tasks with a line of headings; the other kinds are tested with what reads them."""

from pathlib import Path

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.core.tasks.listed_tasks import read_resets
from openenv.core.tasks.task_files import read_file


def written(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_bytes(text.encode())
    return path


def test_values_are_texts_and_an_empty_one_is_none(tmp_path: Path) -> None:
    path = written(tmp_path, '\ufeffquestion,answer,difficulty\r\n"1, or\n2?",007,0.5\r\n\r\n"say ""a""",,hard\r\n')
    rows = [
        {"question": "1, or\n2?", "answer": "007", "difficulty": 0.5},
        {"question": 'say "a"', "answer": None, "difficulty": "hard"},
    ]
    assert read_file(path) == read_resets(path) == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "expected 2 values in line 3, got 1"),
        ("a,b\n1,2,3\n", "expected 2 values in line 2, got 3"),
        ("a,a\n1,2\n", "expected each heading once, got a, a"),
        ("a;b\n1;2\n", "expected commas between headings and between values, got 'a;b'"),
        ("a, b\n1, 2\n", "expected commas without spaces around them, got the heading ' b'"),
        ('a\n"b\n', "unexpected end of data, in line 2"),
        ("a\n" + "x" * 200_000, "field larger than field limit .*, in line 2"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"can't be read from .*t.csv: {message}"):
        read_file(written(tmp_path, text))


def test_a_table_without_rows_has_no_tasks(tmp_path: Path) -> None:
    assert read_file(written(tmp_path, "")) == read_file(written(tmp_path, "a,b\n")) == []
