"""Which addresses are this machine's own."""

import pytest

from openenv.core.addresses import (
    convert_to_ws_url,
    is_loopback,
    is_on_this_machine,
    reachable_url,
    server_address,
    socket_url,
    url_of,
    url_with_path,
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ws://localhost:8000/ws", True),
        ("ws://LOCALHOST/ws", True),
        ("ws://127.0.0.1/ws", True),
        ("ws://127.9.9.9:1/ws", True),
        ("wss://[::1]:8000/ws", True),
        ("ws://0.0.0.0:8000/ws", True),
        ("ws://[::]:8000/ws", True),
        ("ws://[::ffff:127.0.0.1]/ws", True),
        ("ws://env.localhost/ws", True),
        ("no address", False),
        ("ws://192.168.0.1/ws", False),
        ("wss://localhost.example.org/ws", False),
        ("wss://example.org/ws?localhost", False),
    ],
)
def test_a_url_of_this_machine(url: str, expected: bool) -> None:
    assert is_on_this_machine(url) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("LOCALHOST", True),
        ("localhost.", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://0.0.0.0:8001", "http://127.0.0.1:8001"),
        ("wss://0.0.0.0", "wss://127.0.0.1"),
        ("0.0.0.0:8000/wordle", "127.0.0.1:8000/wordle"),
        ("http://[::]:8000/a", "http://[::1]:8000/a"),
        ("http://10.0.0.0:8000", "http://10.0.0.0:8000"),
        ("http://0.0.0.0.example.org", "http://0.0.0.0.example.org"),
        ("http://example.org/0.0.0.0", "http://example.org/0.0.0.0"),
        ("http://[::", "http://[::"),
        ("", ""),
    ],
)
def test_an_address_that_stands_for_all_is_reached_by_one(url: str, expected: str) -> None:
    assert reachable_url(url) == expected


@pytest.mark.parametrize(
    ("host", "https", "expected"),
    [
        ("127.0.0.1", False, "http://127.0.0.1:8000"),
        ("::1", True, "https://[::1]:8000"),
        ("example.org", True, "https://example.org:8000"),
    ],
)
def test_the_url_of_a_server(host: str, https: bool, expected: str) -> None:
    assert url_of(host, 8000, https=https) == expected


@pytest.mark.parametrize(
    ("url", "converted"),
    [
        ("http://h:1", "ws://h:1"),
        ("https://h/", "wss://h"),
        ("ws://h", "ws://h"),
        ("wss://h/a/", "wss://h/a"),
        ("h:1", "ws://h:1"),
        ("localhost", "ws://localhost"),
        ("HTTPS://h", "wss://h"),
    ],
)
def test_the_socket_of_an_address(url: str, converted: str) -> None:
    assert (convert_to_ws_url(url), socket_url(url)) == (converted, f"{converted}/ws")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h:8000/", "ws://h:8000/ws"),
        ("http://h:8000/ws", "ws://h:8000/ws"),
        ("ws://h:8000/ws/", "ws://h:8000/ws"),
        ("https://h/web", "wss://h/ws"),
        ("https://h/web/?theme=dark#board", "wss://h/ws?theme=dark"),
        ("https://h/wordle/web", "wss://h/wordle/ws"),
        ("https://h?key=a/b", "wss://h/ws?key=a/b"),
        ("h:8000/ws", "ws://h:8000/ws"),
        ("http://web", "ws://web/ws"),
        ("http://ws/web", "ws://ws/ws"),
        ("web", "ws://web/ws"),
        ("http://h/cobweb", "ws://h/cobweb/ws"),
    ],
)
def test_the_address_of_a_socket_or_a_page_is_its_servers(url: str, expected: str) -> None:
    assert socket_url(server_address(url)) == expected
    assert server_address(server_address(url)) == server_address(url)


def test_a_path_stands_before_the_query() -> None:
    assert url_with_path("http://h/?a=b", "/health") == "http://h/health?a=b"
    assert url_with_path("http://h/wordle/", "/health") == "http://h/wordle/health"
