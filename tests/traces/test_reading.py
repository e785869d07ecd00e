"""A file of traces: queried in pages and groups, read by range, and added to."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

import pytest
from tests.support.stored_episodes import PICTURE, entries, episode
from tests.support.trace_files import file_of_dump
from tests.support.trace_locations import rows

from openenv import traces
from openenv.core.exceptions import ConfigurationError, IncompleteTraceError
from openenv.traces import Conversation, Entry, Filter, Score, TraceFile
from openenv.traces.episodes import Order


@pytest.fixture
def file(location: str) -> Iterator[TraceFile]:
    with traces.open(location, create=True) as opened:
        yield opened


def test_pages_follow_each_other_without_gap_or_repetition(file: TraceFile) -> None:
    added = [file.add(episode(number), entries()) for number in range(7)]
    pages: list[list[str]] = []
    after = None
    while page := [each.id for each in file.episodes(limit=3, after=after)]:
        pages.append(page)
        after = page[-1]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [name for page in pages for name in page] == added[::-1]
    assert file.count() == 7
    assert file.count(Filter(min_reward=5.0)) == 2
    with pytest.raises(ConfigurationError, match="Expected the id of an episode"):
        list(file.episodes(after="9-9"))


def test_pages_are_read_backwards_within_a_filter(file: TraceFile) -> None:
    added = [file.add(replace(episode(number), started_at=7.0), entries()) for number in range(5)]  # at one time
    assert [each.id for each in file.episodes(before=added[1])] == added[2:]
    assert [each.id for each in file.episodes(limit=1, before=added[1])] == added[2:3]
    assert [each.id for each in file.episodes(Filter(min_reward=3.0), 1, before=added[0])] == added[3:4]
    assert list(file.episodes(before=added[-1])) == []
    with pytest.raises(ConfigurationError, match="Expected the id of an episode"):
        list(file.episodes(before="9-9"))
    with pytest.raises(ConfigurationError, match="Expected after or before, got both"):
        list(file.episodes(after=added[0], before=added[1]))


@pytest.mark.parametrize(
    ("order", "listed"),
    [
        ("newest", [4, 3, 2, 1, 0]),
        ("oldest", [0, 1, 2, 3, 4]),
        ("best", [3, 1, 0, 4, 2]),
        ("worst", [4, 1, 0, 3, 2]),
        ("longest", [2, 4, 3, 1, 0]),
        ("shortest", [1, 0, 4, 3, 2]),
    ],
)
def test_pages_follow_each_other_in_every_order(file: TraceFile, order: Order, listed: list[int]) -> None:
    for number, (reward, steps) in enumerate([(1.0, 1), (1.0, 1), (None, 7), (2.5, 3), (-1.0, 3)]):
        file.add(replace(episode(number), reward=reward, steps=steps), entries())
    whole = [each.id for each in file.episodes(order=order)]
    assert [file.episode(name).seed for name in whole] == [str(number) for number in listed]
    for at, name in enumerate(whole):
        assert [each.id for each in file.episodes(limit=2, after=name, order=order)] == whole[at + 1 : at + 3]
        assert [each.id for each in file.episodes(before=name, order=order)] == whole[:at][::-1]


def test_an_order_that_there_is_not_is_an_error_of_configuration(file: TraceFile) -> None:
    with pytest.raises(ConfigurationError, match="Expected one of the orders newest"):
        list(file.episodes(order="colour"))


def test_rounding_leaves_no_episode_out(file: TraceFile) -> None:
    rounded = 0.6 + 0.3 + 0.1
    for number, reward in enumerate((rounded, 1.0, 0.99, 1.01)):
        file.add(replace(episode(number), reward=reward), entries())
    assert [each.reward for each in file.episodes(Filter(min_reward=1.0))] == [1.01, 1.0, rounded]
    assert [each.reward for each in file.episodes(Filter(max_reward=rounded))] == [0.99, 1.0, rounded]


def test_groups_count_episodes_by_what_they_have_in_common(file: TraceFile) -> None:
    for number, (environment, ending) in enumerate([("a", "done"), ("b", "done"), ("b", "running"), ("b", "done")]):
        file.add(episode(number, environment=environment, ending=ending, split="train"), entries())
    newest, oldest = file.groups("environment", "split")
    assert newest.key == {"environment": "b", "split": "train"}
    assert (newest.episodes, newest.steps, newest.mean_reward, newest.min_reward, newest.max_reward) == (3, 3, 2, 1, 3)
    assert oldest.key == {"environment": "a", "split": "train"}
    assert {group.key["ending"]: group.episodes for group in file.groups("ending")} == {"done": 3, "running": 1}
    assert [group.episodes for group in file.groups("run")] == [4]
    assert file.environments() == ["a", "b"]
    assert [group.key["task_seed"] for group in file.groups("task_seed")] == ["3", "2", "1", "0"]
    assert [group.key["seed"] for group in file.groups("seed", where=Filter(environment="b"), limit=2)] == ["3", "2"]
    for names in ((), ("colour",)):
        with pytest.raises(ConfigurationError, match="Expected to group by some of environment, version"):
            file.groups(*names)


@pytest.mark.parametrize("seconds", [60.0, 0.0], ids=["in each listed episode", "in the whole file"])
def test_a_text_is_found_in_what_was_played_and_in_what_the_model_wrote(
    file: TraceFile, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr("openenv.traces.reading._EACH_EPISODE_S", seconds)
    written = Conversation("e40", messages=[{"role": "assistant", "content": 'I think "xylo\nphone".'}])
    added = [
        file.add(
            episode(number),
            entries(1, 'see "xylo\nphone"' if number % 50 == 0 else "river"),
            [written] * (number == 40),
        )
        for number in range(120)
    ]
    rare = Filter(text='"xylo\nphone')
    found = [each.id for each in file.episodes(rare)]
    assert found == [added[number] for number in (100, 50, 40, 0)]
    assert [each.id for each in file.episodes(rare, 2, after=found[0])] == found[1:3]
    assert (file.count(rare), file.count(Filter(text="river")), file.count(Filter(text="Xylo"))) == (4, 117, 0)
    assert [each.id for each in file.episodes(Filter(text="phone", min_reward=50.0))] == found[:2]
    assert [group.episodes for group in file.groups("environment", where=rare)] == [4]


def test_entries_are_read_by_range(file: TraceFile) -> None:
    name = file.add(episode(), entries(300, observation="x" * 10_000))  # several parts
    for start, stop in [(0, None), (0, 1), (150, 160), (299, 400), (300, None), (5, 5)]:
        numbers = [entry.request["number"] for entry in file.entries(name, start, stop)]
        assert numbers == list(range(300))[start:stop]


def test_the_same_picture_is_stored_once_and_goes_with_its_last_episode(file: TraceFile, location: str) -> None:
    observation = {"png": PICTURE, "url": f"data:image/png;base64,{PICTURE}", "pixels": [[0, 1.5]] * 1000}
    names = [file.add(episode(number), entries(4, observation)) for number in range(3)]

    def blobs() -> list[int]:
        return [length for (length,) in rows(location, "SELECT length(content) FROM blob")]

    assert sorted(blobs()) == [len(PICTURE), len("[0,1.5]") * 1000 + 999 + 2]
    assert [entry.observation for entry in file.entries(names[1])] == [observation] * 4
    observation_without = {"png": "0", "url": "data:image/png;base64,0", "pixels": 0}
    assert [each.observation for each in file.entries(names[1], 1, 3, long_values=False)] == [observation_without] * 2
    assert file.remove(names[:2]) == 2
    assert len(blobs()) == 2
    assert [entry.observation for entry in file.entries(names[2])] == [observation] * 4
    file.remove(names[2:])
    assert blobs() == []


def test_a_conversation_is_joined_to_its_episode_whichever_came_first(file: TraceFile) -> None:
    known = {"model": "m", "completion_ids": [1, 2], "logprobs": [-0.5, 0.0], "env_mask": [1, 0]}
    early, late = (Conversation(name, messages=[{"role": "user", "content": name}], **known) for name in ("e1", "e2"))
    file.add_conversation(early)
    names = [file.add(episode(number), entries()) for number in range(3)]
    file.add_conversation(late)
    assert [file.conversations(name) for name in names] == [[], [early], [late]]
    assert [each.id for each in file.episodes(Filter(model="m"))] == [names[2], names[1]]
    assert [group.key["model"] for group in file.groups("model")] == ["m", None]


def test_models_are_those_of_episodes(file: TraceFile) -> None:
    assert file.models() == []
    file.add(replace(episode(1), episode_id="e1"), entries(), [Conversation("e1", model="tiny")])
    for number, model in ((2, "large"), (3, "tiny"), (4, None)):
        written = [Conversation(f"e{number}", model=model)]
        file.add(replace(episode(number), episode_id=f"e{number}"), entries(), written)
    file.add_conversation(Conversation("elsewhere", model="none of these"))
    assert file.models() == ["large", "tiny"]


def test_scores_lie_beside_each_other_under_their_names(file: TraceFile) -> None:
    name = file.add(episode(), entries())
    file.add_score(name, Score("strict", 1.0, 0.5, [0.5], {"format": 1.0}))
    file.add_score(name, Score("mild", 2.0, 0.7))
    file.add_score(name, Score("strict", 3.0, 0.2, [0.2]))
    assert [(score.name, score.reward) for score in file.scores(name)] == [("mild", 0.7), ("strict", 0.2)]
    assert file.episode(name).reward == 0.0
    with pytest.raises(ConfigurationError, match="Expected the id of an episode"):
        file.add_score("9-9", Score("mild", 2.0, 0.7))


def test_a_label_and_a_note_stay_and_are_filtered_by(file: TraceFile, location: str) -> None:
    good, odd, other = (file.add(episode(number), entries()) for number in range(3))
    assert file.label(good, "good", "the shortest way").note == "the shortest way"
    file.label(odd, "bad")
    file.label(odd, "goes \U0001f422 slowly")
    with traces.open(location) as again:
        assert [found.id for found in again.episodes(Filter(label="good"))] == [good]
        assert again.episode(odd).label == "goes \U0001f422 slowly"
        assert again.labels() == ["goes \U0001f422 slowly", "good"]
        assert {group.key["label"]: group.episodes for group in again.groups("label")} == {
            "good": 1,
            "goes \U0001f422 slowly": 1,
            None: 1,
        }
    assert file.label(good, "bad", replaces=("good", None)).label == "good", "another note is not replaced"
    assert file.label(good, "fine", replaces=("good", "the shortest way")).note is None
    assert file.label(good, "bad", replaces=("fine", "")).label == "bad"
    file.label(good, None)
    assert (file.episode(good).label, file.episode(good).note, file.episode(other).label) == (None, None, None)


@pytest.mark.parametrize(
    ("label", "note", "problem"), [("", None, "label"), ("x" * 61, None, "label"), ("good", "x" * 10_001, "note")]
)
def test_a_label_that_is_none_is_an_error_of_configuration(
    file: TraceFile, label: str, note: str | None, problem: str
) -> None:
    name = file.add(episode(), entries())
    with pytest.raises(ConfigurationError, match=problem):
        file.label(name, label, note)
    with pytest.raises(ConfigurationError, match=r"Expected the id of an episode"):
        file.label("7-7", "good")
    assert file.labels() == []


def test_secrets_of_the_process_are_not_added(file: TraceFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "hunter2hunter2")
    name = file.add(episode(), entries(2, "see hunter2hunter2"), [Conversation("e0", extra={"key": "hunter2hunter2"})])
    assert [entry.observation for entry in file.entries(name)] == ["see [redacted]"] * 2
    assert [each.extra for each in file.conversations(name)] == [{"key": "[redacted]"}]


def test_fields_are_left_out_of_what_is_added(tmp_path: Path) -> None:
    paths = ["observation.png", "reset.episode_id", "action.arguments.password", "messages.content", "tokens"]
    arguments = [{"password": "hush", "name": "ada"}, '{"password": "hush", "name": "ada"}', '{"password": "hush']
    calls = [{"id": "c", "type": "function", "function": {"name": "log_in", "arguments": each}} for each in arguments]
    messages = [{"role": "user", "content": "hush"}, {"role": "assistant", "content": "", "tool_calls": calls}]
    conversation = Conversation("e0", messages=messages, prompt_ids=[1], completion_ids=[2], extra={"index": 3})
    kept = {"text": "At the door.", "png": PICTURE}
    with traces.open(tmp_path / "less.db", create=True, leave_out=paths) as file:
        name = file.add(episode(episode_id=None), entries(2, kept))
        other = file.add(episode(1, episode_id="e0"), [])
        file.add_conversation(conversation)
        assert [entry.observation for entry in file.entries(name)] == [{"text": "At the door."}] * 2
        assert [entry.left_out for entry in file.entries(name)] == [["observation.png"]] * 2
        assert file.episode(other).episode_id is None
    with traces.open(tmp_path / "all.db", create=True, leave_out=paths[2:]) as file:
        (stored,) = [file.conversations(file.add(episode(), entries(1), [conversation]))]
    assert "hush" not in repr(stored)
    assert [(each.prompt_ids, each.completion_ids) for each in stored] == [((), ())]
    assert [message.get("content") for message in stored[0].messages] == [None, None]
    kept_calls = [call["function"]["arguments"] for call in stored[0].messages[1]["tool_calls"]]
    assert kept_calls == [{"name": "ada"}, '{"name":"ada"}', ""]
    assert stored[0].extra == {
        "index": 3,
        "left_out": ["messages.content", "tokens", "action.arguments.password"],
    }


@pytest.mark.parametrize("path", ["messages", "messages.content", "tokens"])
def test_texts_of_tokens_are_left_out_with_messages_and_with_tokens(path: str, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "hush"}]
    conversation = Conversation("e0", messages=messages, prompt_ids=[1], token_texts={"1": "hush"})
    for leave_out, texts in (([path], {}), ([], {"1": "hush"})):
        with traces.open(tmp_path / f"{len(leave_out)}.db", create=True, leave_out=leave_out) as file:
            (stored,) = file.conversations(file.add(episode(), entries(1), [conversation]))
        assert stored.token_texts == texts


def test_traces_of_version_1_are_read_and_written_on(tmp_path: Path) -> None:
    path = file_of_dump(Path(__file__).parent / "version_1.sql", tmp_path / "traces.db")
    with traces.open(path) as opened:
        (recorded,) = opened.episodes()
        assert (recorded.environment, recorded.steps, recorded.reward) == ("catch", 9, 1.0)
        assert [entry.kind for entry in opened.entries(recorded.id)] == ["reset", *["step"] * 9]
        assert [entry.done for entry in opened.entries(recorded.id, 8)] == [False, True]
        opened.add(episode(), entries())
    with traces.open(path) as opened:
        assert opened.count() == 2


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    path = file_of_dump(Path(__file__).parent / f"version_{version}.sql", tmp_path / "traces.db")
    with traces.open(path) as opened:
        assert {found.token_name for found in opened.episodes()} == {None}
        added = opened.add(episode(token_name="trainer"), entries(3))
        assert [found.id for found in opened.episodes(Filter(token_name="trainer"))] == [added]
        assert opened.token_names() == ["trainer"]
        opened.label(added, "good")
        assert [found.id for found in opened.episodes(Filter(label="good"))] == [added]
        for found in opened.episodes(Filter(component="short")):
            assert found.component == opened.record(found.id).components["short"] == 0.5
        assert opened.components() == ([] if version == 1 else ["right", "short"])
    assert version_of(path) == 4


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Have nothing in a folder written, by an ordinary user: to root, permissions do not apply."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder that every user may read, which those of pytest are not."""
    with TemporaryDirectory() as made:
        yield Path(made)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_of_an_earlier_version_that_can_not_be_written_is_read(folder: Path, version: int) -> None:
    path = file_of_dump(Path(__file__).parent / f"version_{version}.sql", folder / "traces.db")
    with unwritable(folder):
        for _ in range(2):
            with traces.open(path) as opened:
                (recorded, *_) = opened.episodes()
                assert len(list(opened.entries(recorded.id))) > recorded.steps
                assert opened.components() == ([] if version == 1 else ["right", "short"])
                with pytest.raises(ConfigurationError, match="attempt to write a readonly database"):
                    opened.label(recorded.id, "good")
    assert version_of(path) == version


def test_a_file_in_a_folder_that_can_not_be_written_is_read_with_its_log(folder: Path) -> None:
    path, left = folder / "traces.db", folder / "left.db"
    with traces.open(path, create=True) as written:
        added = written.add(episode(), entries(3))
        for suffix in ("", "-wal"):  # as a server leaves them that was killed
            copyfile(f"{path}{suffix}", f"{left}{suffix}")
    assert Path(f"{left}-wal").stat().st_size > 0
    with unwritable(folder):
        for each in (path, left):
            with traces.open(each) as opened:
                assert len(list(opened.entries(added))) == 3
    with traces.open(path) as written:
        newer = written.add(episode(1), entries(2))
    with unwritable(folder), traces.open(path) as opened:
        assert [found.id for found in opened.episodes()] == [newer, added]


def test_nothing_of_an_episode_is_there_if_adding_it_fails(file: TraceFile) -> None:
    def broken() -> Iterator[Entry]:
        yield from entries(3)
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        file.add(episode(), broken())
    assert file.count() == 0


IMPOSSIBLE = [
    ("started_at", "9e999"),
    ("started_at", "1e300"),
    ("started_at", "'noon'"),
    ("started_at", "x'ff'"),
    ("ended_at", "-1e300"),
    ("steps", "-1"),
    ("environment", "x'ff'"),
    ("seed", "x'ff'"),
]


@pytest.mark.parametrize(("column", "value"), IMPOSSIBLE)
def test_a_row_with_an_impossible_value_is_listed_as_unreadable_among_the_others(
    tmp_path: Path, column: str, value: str
) -> None:
    path = tmp_path / "traces.db"
    with traces.open(path, create=True) as opened:
        names = [opened.add(episode(number), entries()) for number in range(5)]
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"UPDATE episode SET {column} = {value} WHERE number & 255 = 3")
        file.commit()
    with traces.open(path) as opened:
        found = {each.id: each for each in opened.episodes()}
        pages: list[str] = []
        while page := [each.id for each in opened.episodes(limit=1, after=pages[-1] if pages else None)]:
            pages += page
        assert sorted(pages) == sorted(found) == names
        unreadable = found.pop(names[2])
        assert unreadable.ending == "unreadable"
        assert unreadable.error is not None
        assert unreadable.error.startswith(column)
        assert {each.ending for each in found.values()} == {"done"}
        assert len(list(opened.records())) >= 4


def test_an_entry_that_can_not_be_read_is_said_and_costs_no_other_episode(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    with traces.open(path, create=True) as opened:
        names = [opened.add(episode(number), entries(), [Conversation(f"e{number}")]) for number in range(7)]
        opened.add_score(names[5], Score("brief", 1.0, 1.0))
    contents = (b'["step","noon",1,0,null,{}]\n', b'["step",1,1,0,null,5]\n', b"\x01no columns", b"{}\n")
    with closing(sqlite3.connect(path)) as file:
        for number, content in enumerate(contents, 1):
            file.execute("UPDATE part SET content = ? WHERE episode & 255 = ?", (content, number))
        file.execute("UPDATE conversation SET content = '{\"messages\": 5}' WHERE episode_id = 'e4'")
        file.execute('UPDATE score SET content = \'{"reward": "much"}\'')
        file.execute("UPDATE episode SET parent = 'none' WHERE episode_id = 'e6'")
        file.commit()
    with traces.open(path) as opened:
        for name in names:
            with pytest.raises(IncompleteTraceError, match=rf"the episode {name} .*can't be read"):
                opened.record(name)
        assert list(opened.records()) == []


@pytest.mark.parametrize("value", ["'[]'", "7", "1e308", "''", "'a' || char(0)", "NULL"])
@pytest.mark.parametrize(
    "column", ["part.content", "part.entries", "part.number", "blob.content", "conversation.content"]
)
def test_a_value_of_another_type_than_its_column_costs_its_episode_alone(
    tmp_path: Path, column: str, value: str
) -> None:
    """SQLite keeps any value in any column."""
    path = tmp_path / "traces.db"
    with traces.open(path, create=True) as opened:
        opened.add(
            episode(1), [*entries(), replace(entries()[-1], request={"text": "long " * 4000})], [Conversation("e1")]
        )
        opened.add(episode(2), entries())
    table, _, name = column.partition(".")
    with closing(sqlite3.connect(path)) as file, suppress(sqlite3.IntegrityError):
        file.execute(f"UPDATE {table} SET {name} = {value} WHERE rowid = (SELECT min(rowid) FROM {table})")
        file.commit()
    with traces.open(path) as opened:
        first, second = sorted(each.id for each in opened.episodes())
        assert opened.record(second).episode.episode_id == "e2"
        with suppress(IncompleteTraceError):
            opened.record(first)
        assert second in [each.episode.id for each in opened.records()]


def test_text_that_is_no_utf_8_spoils_no_list(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    with traces.open(path, create=True) as opened:
        opened.add(episode(1), entries())
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE episode SET environment = CAST(x'63ff' AS TEXT)")
        file.commit()
    with traces.open(path) as opened:
        assert [each.environment for each in opened.episodes()] == opened.environments() == ["c\ufffd"]


def test_what_a_query_can_not_hold_is_an_error_of_configuration(file: TraceFile) -> None:
    file.add(episode(1), entries())
    assert list(file.episodes(Filter(text="\udcff"))) == []
    if "://" not in file.name:
        with pytest.raises(ConfigurationError, match="too large"):
            file.count(Filter(run=10**30))


ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


@pytest.mark.parametrize(
    "statements",
    [
        f"ALTER TABLE episode RENAME TO kept; CREATE VIEW episode AS {ENDLESS} SELECT kept.* FROM kept, n;",
        f"CREATE TRIGGER grow AFTER INSERT ON run BEGIN INSERT INTO run {ENDLESS} SELECT x, x, x, x FROM n; END;",
        "ALTER TABLE score ADD COLUMN more AS (zeroblob(1000000000));",
        "CREATE INDEX large ON part (zeroblob(number));",
        "CREATE INDEX large ON part (episode) WHERE zeroblob(number) IS NOT NULL;",
        "ALTER TABLE score ADD COLUMN more BLOB DEFAULT (zeroblob(1000));",
        "ALTER TABLE score ADD COLUMN more BLOB CHECK (length(zeroblob(1000)) > 1);",
        "CREATE VIRTUAL TABLE found USING fts5(text);",
    ],
)
def test_a_file_with_statements_of_its_own_is_refused(tmp_path: Path, statements: str) -> None:
    path = tmp_path / "traces.db"
    with traces.open(path, create=True) as opened:
        opened.add(episode(1), entries())
    with closing(sqlite3.connect(path)) as file:
        file.executescript(statements)
    for create in (False, True):
        with pytest.raises(ConfigurationError, match=r"plain tables, got .* made by .CREATE"):
            traces.open(path, create=create)


def test_further_tables_and_indices_of_columns_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    with traces.open(path, create=True) as opened:
        opened.add(episode(1), entries())
    with closing(sqlite3.connect(path)) as file:
        file.executescript('CREATE TABLE notes (text); CREATE INDEX "mine" ON episode (ending, "steps"); ANALYZE;')
    with traces.open(path) as opened:
        assert opened.count() == 1
