"""HTML file of a page: complete in itself, and without any script but the page's."""

import base64
import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from openenv.core.env_server.settings import MEBIBYTE
from openenv.core.env_server.web.page import static_text
from openenv.core.exceptions import ConfigurationError
from openenv.viewer.answers import json_of
from openenv.viewer.html_file.answers import Answers
from openenv.viewer.html_file.contents import add_view
from openenv.viewer.html_file.script import page_script

MAX_BYTES = 20 * MEBIBYTE
"""Default size of the contents in bytes; the page's scripts are 200 KB."""

_LINKS = re.compile(r'<link rel="(?:stylesheet|modulepreload)"[^>]*>\n')
_SCRIPT = re.compile(r'<script type="module"[^>]*></script>')


async def html_file(routes: Sequence[BaseRoute], page: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Return an HTML file of a page.

    Raises:
        ConfigurationError: There is no such page, or an episode of it is not on record.
    """
    address = urlsplit(page)
    # A grid leads to lists with other filters, which a file has not.
    query = {name: value for name, value in parse_qsl(address.query) if name not in ("view", "by")}
    start = f"/web/{address.path}?{urlencode(query)}".rstrip("?")
    async with Answers(Starlette(routes=routes), max_bytes) as answers:
        views = _views(await answers.read("web/config"))
        if address.path not in views:
            raise ConfigurationError(f"Expected a page that is shown here ({', '.join(views)}), got {address.path!r}.")
        await add_view(answers, address.path, query)
        left_out = [f"{number} {what}" for what, number in answers.left_out.items() if number]
        kept = b",\n".join(b"%s:%s" % (json_of(path), content) for path, content in answers.kept.items())
    about = json_of(
        {
            "start": start,
            "made_at": time.time(),
            "left_out": left_out,
        }
    )
    saved = about[:-1] + b',"answers":{' + kept + b"}}"
    # Within a script element, which what is on record must not end.
    return _page().encode().replace(b"SAVED", saved.replace(b"<", rb"\u003c"), 1)


def _views(config: Mapping[str, Any]) -> list[str]:
    """Return the views of a server's page that a file may show."""
    return (
        ["compare", "traces"] if config["compare"] else [view for view in ("run", "results", "traces") if config[view]]
    )


@cache
def _page() -> str:
    """Return the page with its style and script in it, and ``SAVED`` where its contents belong."""
    script = page_script()
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    style = "".join(f"<style>{static_text(name)}</style>\n" for name in ("style.css", "print.css"))
    saved = '<script type="application/json" id="saved">SAVED</script>\n'
    page = _LINKS.sub("", static_text("index.html"))
    page = _SCRIPT.sub("", page).replace("<title>", f"{head}{style}<title>")
    return page.replace("</body>", f'{saved}<script type="module">{script}</script>\n</body>')
