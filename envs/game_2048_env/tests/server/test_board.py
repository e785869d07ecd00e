import re

from game_2048_env.server.board import as_html, drawn, in_words

BOARD = [[2, 0, 0, 4], [0, 128, 0, 0], [0, 0, 1024, 0], [0, 0, 0, 2048]]


def test_a_position_in_words() -> None:
    text = in_words(BOARD[:3], 12, ["up", "left"], initial=False)
    assert text.splitlines() == [
        "    2    .    .    4",
        "    .  128    .    .",
        "    .    . 1024    .",
        "Score: 12. Moves: up, left",
    ]


def test_the_rules_come_first_and_the_end_is_told() -> None:
    assert in_words(BOARD, 0, ["up"], initial=True).startswith("2048: all tiles slide")
    assert in_words(BOARD, 0, [], initial=False).endswith("Score: 0. There is a tile 2048: won.")
    assert in_words(BOARD[:3], 0, [], initial=False).endswith("Score: 0. No tile can slide.")


def test_the_picture_has_a_colour_for_each_tile_and_straight_columns() -> None:
    rows = drawn([[2 << power for power in range(start, start + 4)] for start in (0, 4, 8)], 0, []).splitlines()
    colours = re.findall(r"48;5;(\d+)m +(\d+) +", "".join(rows))
    assert len({colour for colour, _ in colours[:11]}) == 11
    assert [int(tile) for _, tile in colours] == [2 << power for power in range(12)]
    plain = [re.sub(r"\x1b\[[\d;]*m", "", row) for row in drawn(BOARD, 8, ["up"]).splitlines()]
    assert plain[0] == "  2     .     .     4   "
    assert {len(row) for row in plain[:4]} == {24}
    assert plain[4:] == ["Score: 8. Moves: up"]


def test_the_board_of_the_page_has_a_square_for_each_tile_and_says_how_the_game_stands() -> None:
    board = as_html({"board": BOARD, "score": 12, "legal_moves": ["up"]})
    assert re.findall(r'<td class="bits-(\d+)">(\d+)</td>', board) == [
        ("2", "2"),
        ("3", "4"),
        ("8", "128"),
        ("11", "1024"),
        ("12", "2048"),
    ]
    assert all(f"td.bits-{bits} {{" in board for bits in (2, 3, 8, 11, 12, 17))
    assert board.count("<td></td>") == 11
    assert "Score: 12. Moves: up" in board
    assert "There is a tile 2048: won." in as_html({"board": BOARD, "score": 12, "legal_moves": []})
