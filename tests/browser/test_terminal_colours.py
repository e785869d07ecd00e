"""Text with the colours of a terminal can be read on the page, whatever its colours and the page's."""

from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer
from tests.support.web_pages import PlayPage

from openenv.core.env_server.app import create_fastapi_app

# Of the spans of a text, those whose contrast is below 4.5 (WCAG 2.2, 1.4.3).
_UNREADABLE = """
(text) => {
  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const painted = (colours) => {
    pixel.clearRect(0, 0, 1, 1);
    for (const colour of colours) { pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1); }
    return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (level) => (level / 255 <= 0.04045 ? level / 255 / 12.92 : ((level / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  const back = (element) => getComputedStyle(element).backgroundColor;
  const behind = (element) => (element === null ? ["white"] : [...behind(element.parentElement), back(element)]);
  const found = [];
  for (const span of document.querySelectorAll(text + " span")) {
    const colours = [painted([getComputedStyle(span).color]), painted(behind(span))];
    const [darker, lighter] = colours.map(luminance).sort((one, other) => one - other);
    const contrast = (lighter + 0.05) / (darker + 0.05);
    if (contrast < 4.5) found.push(`${span.innerText}: ${colours.join(" on ")}, ${contrast.toFixed(2)}`);
  }
  return found;
}
"""
_BASIC = [*range(30, 38), *range(90, 98)]
_TEXTS = [f"\x1b[{code}m{code}\x1b[0m" for code in _BASIC]
_BACKGROUNDS = [f"\x1b[{code + 10}m{code + 10}\x1b[0m" for code in _BASIC]
_BOTH = [f"\x1b[{text};{back + 10}m{text};{back + 10}\x1b[0m" for text in _BASIC for back in _BASIC]
_REVERSE = [f"\x1b[7;{codes}m7;{codes}\x1b[0m" for codes in ("0;7", "31", "97", "43", "30;40", "38;5;226")]
_PALETTE = [f"\x1b[{kind};5;{index}m{kind};{index}\x1b[0m" for kind in (38, 48) for index in range(256)]
_TRUE = [f"\x1b[{kind};2;{level};{level};90m{kind}\x1b[0m" for kind in (38, 48) for level in range(0, 256, 15)]
_DISTURBED = ["\x1b[38;5;999mx", "\x1b[48;5mx", "\x1b[38;2;1mx", "\x1b[48;9;9;9mx", "\x1b[38;2;300;0;0mx\x1b[0m"]


class ColouredEnvironment(CounterEnvironment):
    """Shows every colour that a terminal has, alone and in pairs."""

    def render(self) -> str:
        parts = (_TEXTS, _BACKGROUNDS, _BOTH, _REVERSE, _PALETTE, _TRUE, _DISTURBED)
        return "\n".join(" ".join(part) for part in parts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_can_be_read_on_every_other(browser: Any, scheme: str) -> None:
    with RunningServer(create_fastapi_app(ColouredEnvironment, Add, Total)) as server:
        visit = PlayPage(browser, server, color_scheme=scheme)
        visit.reset()
        visit.page.wait_for_selector("pre.terminal")
        assert visit.page.locator("pre.terminal span").count() > 16 * 16 + 2 * 256
        assert visit.page.evaluate(_UNREADABLE, "pre.terminal") == []
        spans = visit.page.locator("pre.terminal span")
        backgrounds = spans.evaluate_all("all => all.map(one => one.style.backgroundColor)")
        assert {"rgb(95, 175, 95)", "rgb(88, 88, 88)"} <= set(backgrounds)  # 71 and 240 of the palette
        visit.close()
