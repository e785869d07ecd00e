import re

import pytest

from catch_env.server.board import as_html


@pytest.mark.parametrize(
    ("ball", "paddle", "row", "pieces"),
    [
        (1, 2, 0, {1: "ball", 47: "paddle"}),
        (4, 4, 8, {44: "ball", 49: "paddle"}),
        (3, 3, 9, {48: "caught"}),
        (0, 1, 9, {45: "ball", 46: "paddle"}),
    ],
)
def test_ball_and_paddle_are_where_the_observation_says(
    ball: int, paddle: int, row: int, pieces: dict[int, str]
) -> None:
    board = as_html({"ball": ball, "paddle": paddle, "row": row})
    cells = re.findall(r"<td(?: class=\"(\w+)\" aria-label=\"\1\")?></td>", board)
    assert len(cells) == 50
    assert {number: name for number, name in enumerate(cells) if name} == pieces
