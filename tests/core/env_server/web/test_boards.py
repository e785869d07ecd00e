"""Boards as HTML: what stands on them is shown as it is, and can be read aloud."""

import re

from hypothesis import given
from hypothesis import strategies as st

from openenv.core.env_server.web.boards import Board, Square, board_html


def test_a_board_has_a_cell_for_each_square_and_names_beside_rows_and_columns() -> None:
    rows = [[Square("x"), Square(kind="wall", name="a wall")], [Square(), Square("o")]]
    html = board_html("Your move.", Board(rows, "Maze", ["a", "b"], ["2", "1"]), "", style="td.wall { color: red }")
    body = html.partition("</style>")[2]
    assert body == (
        '<p>Your move.</p><table aria-label="Maze"><tr><td></td><th scope="col">a</th><th scope="col">b</th></tr>'
        '<tr><th scope="row">2</th><td>x</td><td class="wall" aria-label="a wall"></td></tr>'
        '<tr><th scope="row">1</th><td></td><td>o</td></tr></table>'
    )
    assert "td.wall { color: red }</style>" in html


@given(st.text(), st.text(), st.text())
def test_no_text_becomes_an_element_or_an_attribute(text: str, kind: str, name: str) -> None:
    rows = [[Square(text, kind, name)]]
    body = board_html(text, Board(rows, text, [text], [text])).partition("</style>")[2]
    tags = re.findall(r"<(\w+)", body)
    assert [tag for tag in tags if tag not in ("p", "table", "tr", "td", "th")] == []
    assert (tags.count("td"), tags.count("table")) == (2, 1)
    assert set(re.findall(r' ([\w-]+)="', body)) <= {"aria-label", "scope", "class"}
