"""Page, Markdown and badge of a card, each a file that needs nothing else."""

import html
from collections.abc import Sequence
from pathlib import Path
from string import Template

from openenv.core.documents import draft_of
from openenv.validation.card.card import Card, CardFigure, LearningPoints

_PAGE, _BADGE = (Path(__file__).with_name(name) for name in ("card.html", "badge.svg"))
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 240, 52, 92, 12, 30
_MARKS = {True: ("good", "&nbsp;<b>✓</b>"), False: ("bad", "&nbsp;<b>✗</b>"), None: ("plain", "")}
_SMOOTHED = 8
_CHARACTER = 6.6  # width in the badge's letters
_LEVELS = {"floor": "random", "oracle": "scripted"}


def write_card(card: Card, path: Path) -> list[Path]:
    """Write the page, and the Markdown and the badge beside it, each whole or not at all.

    Args:
        card: The card.
        path: File of the page.

    Returns:
        The files.
    """
    texts = {path: page(card), path.with_suffix(".md"): markdown(card), path.with_suffix(".svg"): badge(card)}
    for file, text in texts.items():
        with draft_of(file) as draft:
            draft.write_text(text, "utf-8")
    return list(texts)


def page(card: Card) -> str:
    """Return the page of a card."""
    fields = {
        "name": html.escape(card.name),
        "version": html.escape(card.version),
        "description": html.escape(card.description),
        "rows": "".join(map(_row, card.figures)),
        "curve": "" if card.curve is None else f"<h2>Learning curve of the tiny policy</h2>{_curve(card, card.curve)}",
        "seconds": f"{card.seconds:.0f}",
    }
    return Template(_PAGE.read_text("utf-8")).substitute(fields)


def _row(figure: CardFigure) -> str:
    kind, mark = _MARKS[figure.is_good]
    text = '<span class="missing">not measured</span>' if figure.text is None else html.escape(figure.text)
    return (
        f'<tr><th scope="row">{html.escape(figure.name)}</th><td class="{kind}">{text}{mark}</td>'
        f'<td class="remark">{html.escape(figure.reason)}</td></tr>'
    )


def _curve(card: Card, points: LearningPoints) -> str:
    """Draw the rewards over the seconds of the training, with the other players as lines."""
    rewards = _smoothed(points.rewards)
    values = [*rewards, *card.levels.values()]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    last = points.seconds[-1] or 1.0
    drawn = [
        f"{_LEFT + (_WIDTH - _LEFT - _RIGHT) * second / last:.1f},{_height(reward, low, span):.1f}"
        for second, reward in zip(points.seconds, rewards, strict=True)
    ]
    right = _WIDTH - _RIGHT
    lines = "".join(
        f'<line class="{name}" x1="{_LEFT}" x2="{right}" y1="{_height(mean, low, span):.1f}" '
        f'y2="{_height(mean, low, span):.1f}"/><text class="{name}" x="{right + 8}" '
        f'y="{_height(mean, low, span) + 4:.1f}">{_LEVELS[name]}</text>'
        for name, mean in card.levels.items()
    )
    ticks = "".join(
        f'<text class="tick" text-anchor="end" x="{_LEFT - 8}" y="{_height(value, low, span) + 4:.1f}">'
        f"{value:.3g}</text>"
        for value in dict.fromkeys((low, high))
    )
    return (
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Mean reward over seconds">'
        f'{lines}{ticks}<polyline points="{" ".join(drawn)}"/>'
        f'<text class="tick" x="{_LEFT}" y="{_HEIGHT - 8}">0 s</text>'
        f'<text class="tick" text-anchor="end" x="{right}" y="{_HEIGHT - 8}">{last:.0f} s of training</text></svg>'
    )


def _height(value: float, low: float, span: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (value - low) / span


def _smoothed(rewards: Sequence[float]) -> list[float]:
    """Return the mean of each reward and those before it."""
    windows = [rewards[max(0, number - _SMOOTHED + 1) : number + 1] for number in range(len(rewards))]
    return [sum(window) / len(window) for window in windows]


def markdown(card: Card) -> str:
    """Return a card in Markdown."""
    rows = [("", "", ""), ("---", "---", "---")]
    rows += [(each.name, each.text or "not measured", each.reason) for each in card.figures]
    table = "\n".join("| " + " | ".join(_one_line(cell) for cell in row) + " |" for row in rows)
    return f"# {card.name} {card.version}\n\n{card.description}\n\n{table}\n\nMeasured in {card.seconds:.0f} s.\n"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def badge(card: Card) -> str:
    """Return a card's badge: the oracle beside the floor, or what is not as it should be."""
    levels = card.levels
    if card.faults:
        text, colour = f"{len(card.faults)} to look at", "#b3261e"
    elif len(levels) == len(_LEVELS):
        text, colour = f"random {levels['floor']:.3g} · oracle {levels['oracle']:.3g}", "#17703f"
    else:
        text, colour = "not measured", "#5a5f67"
    left = round(_CHARACTER * len(card.name)) + 16
    right = round(_CHARACTER * len(text)) + 16
    fields = {"name": html.escape(card.name), "text": html.escape(text), "colour": colour, "left": left, "right": right}
    fields |= {"width": left + right, "name_x": left / 2, "text_x": left + right / 2}
    return Template(_BADGE.read_text("utf-8")).substitute(fields)
