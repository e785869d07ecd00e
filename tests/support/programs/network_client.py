"""Send the requests that standard input lists as JSON, and print as JSON what came of each.

A request is ``{"url": ..., "headers": {...}}``. One whose URL is that of a WebSocket resets an environment, any other
is a POST, or a GET if it has ``"method": "GET"``. What came is a status, and a body where there is one.
"""

import json
import sys
import urllib.error
import urllib.request
from typing import Any

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect


def over_http(url: str, headers: dict[str, str], method: str = "POST") -> tuple[int, str]:
    request = urllib.request.Request(url, method=method, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def over_websocket(url: str, headers: dict[str, str]) -> tuple[int, str]:
    try:
        with connect(url, additional_headers=headers, proxy=None) as socket:
            socket.send('{"type": "reset"}')
            return 101, str(socket.recv(timeout=30))
    except InvalidStatus as error:
        return error.response.status_code, error.response.body.decode()


def came_of(request: dict[str, Any]) -> tuple[int, str]:
    ask = over_websocket if request["url"].startswith("ws") else over_http
    return ask(**request)


if __name__ == "__main__":
    print(json.dumps([came_of(request) for request in json.load(sys.stdin)]))  # noqa: T201
