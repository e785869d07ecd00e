"""What clients are told of an environment's errors, on every way to a server."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer

from openenv.core.exceptions import EnvironmentFailedError, IllegalActionError, RemoteTracebackError, RequestError
from openenv.core.wire.errors import error_data
from openenv.core.wire.redaction import (
    add_traceback,
    message_of,
    origin_of,
    redact,
    traceback_text,
    withheld_variables,
    without_credentials,
    without_origin,
)

SECRET = "hunter2-hunter2-hunter2"


class TestText:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("", ""),
            ("kaboom", "kaboom"),
            ("either/or, 1/2 and n/a", "either/or, 1/2 and n/a"),
            ("/", "/"),
            ("a // b", "a // b"),
            ("No such file: '/usr/share/dict/words'", "No such file: '.../words'"),
            ('No such file: "/usr/my files/a b.txt"', 'No such file: ".../a b.txt"'),
            ("'/usr/it' isn't there", "'.../it' isn't there"),
            ("in /usr/lib/x.py, line 3", "in .../x.py, line 3"),
            ("/usr/lib/x.py:3: error", ".../x.py:3: error"),
            ("(/usr/bin/a)[/usr/bin/b]{/usr/bin/c}", "(.../a)[.../b]{.../c}"),
            ("path=/usr/lib/", "path=.../lib"),
            ("-I/usr/include/x", "-I.../x"),
            ("x\n/usr/lib/y\n", "x\n.../y\n"),
            ("file:///usr/lib/x", ".../x"),
            ("sqlite:////usr/lib/x", "sqlite:.../x"),
            ("/usr", ".../usr"),
            ("POST /api/users failed", "POST /api/users failed"),
            (
                "see https://example.com/usr/lib/x and http://h/usr",
                "see https://example.com/usr/lib/x and http://h/usr",
            ),
            ("postgres://me:pass@db/x", "postgres://[redacted]@db/x"),
            ("b'/usr/lib/\\x00'", "b'.../\\x00'"),
        ],
    )
    def test_paths_are_cut_to_their_last_part(self, text: str, told: str) -> None:
        assert redact(text) == told

    def test_wherever_the_path_came_from(self, tmp_path: Path) -> None:
        folder = tmp_path / "a folder"
        folder.mkdir()
        with pytest.raises(OSError, match="a folder") as caught:
            (folder / "words.txt").read_text()
        assert redact(str(caught.value)) == "[Errno 2] No such file or directory: '.../words.txt'"
        assert str(tmp_path) not in redact(f"{tmp_path}, {tmp_path!r} and {folder}/x")

    @pytest.mark.parametrize(
        "name", ["HF_TOKEN", "API_KEY", "MY_SECRET_2", "db_password", "PGPASSWORD", "GPG_PASSPHRASE", "CREDENTIALS"]
    )
    def test_secrets_are_left_out(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(name, SECRET)
        assert redact(f"got {SECRET!r}, {SECRET}{SECRET}") == "got '[redacted]', [redacted][redacted]"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(
                (name, "x")
                for name in ("API_KEY", "DB_PASS", "MYSQL_PWD", "GITHUB_PAT", "NPM_AUTH", "DOCKER_AUTH_CONFIG")
            ),
            *((name, "x") for name in ("AZURE_STORAGE_CONNECTION_STRING", "SENTRY_DSN", "DSN", "SSH_AUTH_SOCK")),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/0/bus"),
            ("STORE", "postgresql://me:x@db.example/traces"),
            ("STORE", "postgresql://db.example/traces?sslmode=require&password=x"),
        ],
    )
    def test_variables_that_give_access_are_withheld(
        self, name: str, value: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(name, value)
        assert name in withheld_variables()

    @pytest.mark.parametrize("name", ["PATH", "PWD", "OLDPWD", "PYTHONPATH", "LD_LIBRARY_PATH", "GIT_AUTHOR_NAME"])
    def test_ordinary_ones_are_not(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(name, "/usr/bin:/bin?x=y")
        assert name not in withheld_variables()

    def test_what_is_no_secret_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_NAME", SECRET)
        monkeypatch.setenv("SHORT_KEY", "abc1234")
        monkeypatch.setenv("EMPTY_TOKEN", "")
        assert redact(f"{SECRET} abc1234") == f"{SECRET} abc1234"

    def test_a_secret_within_another_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("A_TOKEN", SECRET)
        monkeypatch.setenv("B_TOKEN", f"{SECRET}-and-more")
        assert redact(f"{SECRET}-and-more") == "[redacted]"

    def test_a_secret_of_bytes_that_are_no_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(os.environb, b"RAW_KEY", b"\xff\xfe-not-utf8")
        assert redact(f"got {os.fsdecode(os.environb[b'RAW_KEY'])}") == "got [redacted]"

    def test_the_whole_of_a_document(self) -> None:
        document = {"/usr/lib/k": [1, None, True, "/usr/lib/v", {"a": ["/usr/lib/w"]}]}
        assert redact(document) == {".../k": [1, None, True, ".../v", {"a": [".../w"]}]}

    def test_a_long_word_takes_no_long_time(self) -> None:
        text = "a" * 1_000_000
        assert redact(text + "/") == text + "/"

    @given(
        before=st.sampled_from(["", "x", " ", "(", "'", '"', "=", ":", "\n", "\\n", "/", "file://", "a/b ", "~", "é"]),
        names=st.lists(st.text(alphabet="ab.-_~@é$", min_size=1), min_size=1),
        after=st.sampled_from(["", " ", ")", "'", '"', ":3", "\n", "/", ",", "; x/y"]),
    )
    def test_no_path_is_left_wherever_it_stands(self, before: str, names: list[str], after: str) -> None:
        told = redact(f"{before}/usr/lib/{'/'.join(names)}{after}")
        assert "usr" not in told
        assert "lib" not in told


class TestError:
    def test_its_details_are_told_as_its_message_is(self) -> None:
        error = RequestError("at /usr/lib/x", where="/usr/lib/y", count=3)
        assert error_data(error) == {"message": "at .../x", "code": "SESSION_ERROR", "where": ".../y", "count": 3}

    def test_a_traceback_that_an_author_adds_is_not_told(self) -> None:
        assert "traceback" not in error_data(RequestError("m", traceback="Traceback ..."))

    def test_no_code_is_taken_for_a_secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ODD_KEY", "SESSION_ERROR")
        assert error_data(RequestError("SESSION_ERROR"))["code"] == "SESSION_ERROR"

    def test_with_a_traceback_everything_is_told(self) -> None:
        error = RequestError("at /usr/lib/x")
        error.traceback = "Traceback: /usr/lib/x"
        assert error_data(error)["message"] == "at /usr/lib/x"
        assert error_data(error)["traceback"] == "Traceback: /usr/lib/x"

    def test_there_is_none_without_a_cause(self) -> None:
        error = RequestError("m")
        add_traceback(error)
        assert error.traceback is None

    def test_an_exception_that_can_t_be_written(self) -> None:
        class HostileError(Exception):
            @property
            def __notes__(self) -> list[str]:  # type: ignore[override]
                raise RuntimeError("no")

        assert "HostileError" in traceback_text(HostileError())

    def test_one_of_another_process_has_its_text(self) -> None:
        assert traceback_text(RemoteTracebackError("as it was there")) == "as it was there"


class LeakyEnvironment(CounterEnvironment):
    """Raises with a path and a secret in its words: below 5 on a step, with a seed on a reset."""

    BLOCKING = True

    def leak(self) -> str:
        return f"can't read {__file__} with {os.environ['LEAKY_TOKEN']}"

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        if seed is not None:
            raise OSError(2, self.leak(), __file__)
        return super().reset(seed, episode_id)

    def step(self, action: Add) -> Total:
        if action.amount == 1:
            raise ValueError(self.leak())
        if action.amount == 2:
            raise IllegalActionError(self.leak())
        if action.amount == 3:
            raise RequestError(self.leak(), where=__file__, traceback=self.leak())
        return Total.model_construct(total=self)  # type: ignore[arg-type]


class UnmadeEnvironment(LeakyEnvironment):
    """Can't be made."""

    def __init__(self) -> None:
        raise ValueError(self.leak())


def over_http(server: RunningServer) -> list[dict[str, Any]]:
    with server.http() as http:
        answers = [http.post("/reset", json={"seed": 1})]
        http.post("/reset")
        answers += [http.post("/step", json={"action": {"amount": amount}}) for amount in (1, 2, 3, 4)]
    assert {answer.status_code for answer in answers} <= {422, 500}
    return [answer.json() for answer in answers]


def on_the_legacy_wire(server: RunningServer) -> list[dict[str, Any]]:
    with server.wire() as wire:
        errors = [wire.reset(seed=1)]
        wire.reset()
        errors += [wire.step(amount=amount) for amount in (1, 2, 3, 4)]
    return data_of(errors)


def on_v1(server: RunningServer) -> list[dict[str, Any]]:
    with server.v1() as wire:
        session = wire.open()
        errors = [wire.do("reset", session, seed=1)]
        wire.do("reset", session)
        errors += [wire.do("step", session, amount=amount) for amount in (1, 2, 3, 4)]
    return data_of(errors)


def data_of(errors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert {error["type"] for error in errors} == {"error"}
    return [error["data"] for error in errors]


Ask = Callable[[RunningServer], list[dict[str, Any]]]


@pytest.fixture(params=[over_http, on_the_legacy_wire, on_v1], ids=["http", "legacy", "v1"])
def ask(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Have a leaky environment fail in every way, and return what is told of it."""
    monkeypatch.setenv("LEAKY_TOKEN", SECRET)
    way: Ask = request.param
    return way


PLACES = pytest.mark.parametrize("isolation", ["none", "process"])
HERE = str(Path(__file__).parent)


@PLACES
def test_nothing_is_told_that_is_nobody_s_business(
    serve: Serve, ask: Ask, isolation: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = ask(serve(LeakyEnvironment, isolation=isolation))
    text = repr(told)
    assert SECRET not in text
    assert HERE not in text
    assert "Traceback" not in text
    assert "traceback" not in text
    assert "can't read .../test_redaction.py with [redacted]" in text  # the rest of the sentence is
    # The server's own log keeps everything.
    assert SECRET in caplog.text
    assert HERE in caplog.text


@PLACES
def test_a_server_that_debugs_tells_where_it_was(serve: Serve, ask: Ask, isolation: str) -> None:
    server = serve(LeakyEnvironment, isolation=isolation, debug=True)
    for told in ask(server):
        if isinstance(told.get("detail"), list):  # a refused action over HTTP has the form of FastAPI
            continue
        assert "Traceback (most recent call last)" in told["traceback"]
        assert "test_redaction.py" in told["traceback"] or "cannot be sent" in repr(told)


@PLACES
def test_an_environment_that_can_t_be_made(serve: Serve, isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKY_TOKEN", SECRET)
    for debug in (False, True):
        server = serve(UnmadeEnvironment, isolation=isolation, debug=debug)
        with server.wire() as legacy, server.v1() as v1, server.http() as http:
            told = [
                legacy.receive()["data"],
                v1.ask({"type": "open", "id": 1})["data"],
                http.post("/reset").json(),
                http.get("/metadata").json(),
            ]
        for one in told:
            assert one["code"] == "FACTORY_ERROR"
            assert (SECRET in repr(one)) is debug
            assert ("Traceback" in one.get("traceback", "")) is debug


@pytest.mark.parametrize(("variable", "shows"), [("1", True), ("0", False), ("", False)])
def test_debug_from_the_environment(serve: Serve, variable: str, shows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_DEBUG", variable)
    monkeypatch.setenv("LEAKY_TOKEN", SECRET)
    with serve(LeakyEnvironment).wire() as wire:
        assert ("traceback" in wire.reset(seed=1)["data"]) is shows
    with serve(LeakyEnvironment, debug=False).wire() as wire:
        assert "traceback" not in wire.reset(seed=1)["data"]


def test_a_word_that_says_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_DEBUG", "yes")
    with pytest.raises(ValueError, match="Expected OPENENV_DEBUG to be 0 or 1, got 'yes'"):
        serve()


class Speechless(Exception):  # noqa: N818  # an author's own
    def __str__(self) -> str:
        raise RuntimeError("it has no words")


@pytest.mark.parametrize(
    ("raised", "told"), [(ValueError("no"), "no"), (TimeoutError(), "TimeoutError"), (Speechless("a"), "Speechless")]
)
def test_what_an_exception_says(raised: Exception, told: str) -> None:
    assert message_of(raised) == told


def test_an_environment_s_failure_keeps_its_cause() -> None:
    error = EnvironmentFailedError("kaboom")
    error.__cause__ = ValueError("why")
    add_traceback(error)
    assert error.traceback is not None
    assert error.traceback.endswith("ValueError: why\n")


@PLACES
def test_a_server_that_debugs_says_what_was_raised_and_where(serve: Serve, ask: Ask, isolation: str) -> None:
    failed = ask(serve(LeakyEnvironment, isolation=isolation, debug=True))[0]
    said = failed.get("message") or failed["detail"]
    assert re.search(rf"^FileNotFoundError: .*{re.escape(__file__)}, line \d+, in reset\)$", said)


@PLACES
def test_a_server_that_debugs_says_why_an_environment_can_t_be_made(serve: Serve, isolation: str) -> None:
    with serve(UnmadeEnvironment, isolation=isolation, debug=True).wire() as wire:
        said = wire.receive()["data"]["message"]
    # Its leak() reads a variable that is not there.
    assert said.startswith("Environment factory 'UnmadeEnvironment' failed to create instance. KeyError: 'LEAKY_TOKEN'")
    assert re.search(rf"{re.escape(__file__)}, line \d+, in leak\)$", said)


def test_the_line_that_is_named_is_the_author_s() -> None:
    with pytest.raises(ValueError, match="Expecting value") as raised:
        json.loads("no JSON")
    assert re.search(r"^JSONDecodeError: .*test_redaction.py, line \d+, in test_the_line_", origin_of(raised.value))


@pytest.mark.parametrize(("raised", "said"), [(KeyError("a"), "KeyError: 'a'"), (TimeoutError(), "TimeoutError")])
def test_what_was_raised_without_a_traceback_has_no_line(raised: Exception, said: str) -> None:
    assert origin_of(raised) == said


@pytest.mark.parametrize(
    "after", ["." * 200_000 + "x", ".)" * 100_000 + "\0", "?a=" * 60_000, "x" * 200_000, ";" * 200_000]
)
def test_a_long_address_takes_no_time_beyond_its_length(after: str) -> None:
    """Whoever reaches a server has it log addresses of 64 KiB."""
    assert without_credentials(f"GET /ws?seed={after}&token=hunter2 HTTP/1.1").endswith("&token=[redacted] HTTP/1.1")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see http://here/?token=a.b.c).", "see http://here/?token=[redacted])."),
        ("?token=...", "?token=[redacted].."),
        ("'/?key=x'", "'/?key=[redacted]'"),
        ("?token=a;b=1&seed=2", "?token=[redacted]&seed=2"),
        ("?token=&seed=2", "?token=&seed=2"),
    ],
)
def test_what_follows_an_address_is_no_part_of_it(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


ORIGINS = {
    "ValueError: it fell (/envs/walk.py, line 8, in step)": "it fell",
    "ValueError: it fell (hard, line 3": "it fell (hard, line 3",
    "KeyError (/envs/walk.py, line 8, in step)": "KeyError",
    "KeyError": "KeyError",
    "It is a sentence.": "It is a sentence.",
    "ValueError: a: b\nc (<string>, line 8, in <module>)": "a: b\nc",
    "The reward component 'a (b)' raised KeyError (/w, line 8, in f)": "The reward component 'a (b)' raised KeyError",
    "ValueError: " + " (" * 100_000 + ", line 1, in x": " (" * 100_000 + ", line 1, in x",
    "ValueError: x" + ", line 1, in x)" * 100_000 + " ": "x" + ", line 1, in x)" * 100_000 + " ",
    "The reward component '" + "' raised " * 50_000: "The reward component '" + "' raised " * 50_000,
}


@pytest.mark.parametrize("text", ORIGINS, ids=range(len(ORIGINS)))
def test_a_message_is_shown_without_its_origin(text: str) -> None:
    assert without_origin(text) == ORIGINS[text]
