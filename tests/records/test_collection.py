"""The folder of recorded episodes: its lines, and what a kill leaves of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.client_types import StepResult
from openenv.core.documents import draft_of
from openenv.core.exceptions import ConfigurationError
from openenv.records.collection import Collection
from openenv.train.dataset.collecting import CLOSING, line_of
from openenv.train.episodes.episode import Episode
from openenv.train.episodes.played_episode import Message, PlayedEpisode

TOOLS = [{"type": "function", "function": {"name": "climb", "description": "", "parameters": {"type": "object"}}}]
SETTINGS = {"environment": "stairs", "seed": 1}
LEFT_OUT = {"index": 2, "task": {"seed": 2, "floor": "first"}, "reward": 0.5}


def played(index: int, text: str = "up", *, tools: bool = True, done: bool = True) -> PlayedEpisode:
    """An episode of one step, its conversation, and what was shown after it."""
    episode = Episode.of_task({"seed": index, "floor": "first"})
    episode.add_turn("the stairs", text, StepResult({}, reward=0.5, done=done))
    call = {"id": "call00000", "type": "function", "function": {"name": "climb", "arguments": {"move": text}}}
    asked: Message = {"role": "user", "content": "the stairs"}
    if tools:
        answer = {"role": "tool", "tool_call_id": "call00000", "name": "climb", "content": text}
        messages = [asked, {"role": "assistant", "content": "", "tool_calls": [call]}, answer]
    else:
        messages = [asked, {"role": "assistant", "content": text}, {"role": "user", "content": text}]
    return PlayedEpisode(index, episode, messages, TOOLS if tools else [])


def test_a_line_says_all_of_an_episode(tmp_path: Path) -> None:
    collection = Collection.open(tmp_path / "data", SETTINGS)
    collection.add(line_of(played(3), "stairs"))
    (line,) = collection.read()
    assert line.pop("messages")[0] == {"role": "user", "content": "the stairs"}
    assert line.pop("tools") == TOOLS
    assert line == {
        "index": 3,
        "environment": "stairs",
        "task": {"seed": 3, "floor": "first"},
        "reward": 0.5,
        "rewards": [0.5],
        "length": 1,
        "illegal_actions": 0,
        "done": True,
    }


@pytest.mark.parametrize(
    ("tools", "done", "roles"),
    [
        (True, True, ["user", "assistant", "tool", "assistant"]),
        (True, False, ["user", "assistant", "tool"]),
        (False, True, ["user", "assistant"]),
        (False, False, ["user", "assistant"]),
    ],
)
def test_a_conversation_ends_as_a_model_should_end_it(
    tmp_path: Path, tools: bool, done: bool, roles: list[str]
) -> None:
    collection = Collection.open(tmp_path, SETTINGS)
    collection.add(line_of(played(0, tools=tools, done=done), "stairs"))
    messages = collection.read()[0]["messages"]
    assert [message["role"] for message in messages] == roles
    assert (messages[-1]["content"] == CLOSING) is (tools and done)


def test_pictures_are_left_out(tmp_path: Path) -> None:
    collection = Collection.open(tmp_path, SETTINGS)
    blocks = [{"type": "text", "text": "one"}, {"type": "image", "image": object()}, {"type": "text", "text": "two"}]
    one = played(0)
    one.messages[0]["content"] = blocks
    collection.add(line_of(one, "stairs"))
    assert collection.read()[0]["messages"][0]["content"] == "one\ntwo"
    assert one.messages[0]["content"] is blocks, "the episode itself stays as it was"


@given(texts=st.lists(st.text(), min_size=1, max_size=5))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("data")
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    collection = Collection.open(folder, SETTINGS)
    for index, text in enumerate(texts):
        collection.add(line_of(played(index, text), "stairs"))
    lines = Collection.open(folder, SETTINGS).read()
    assert [line["messages"][1]["tool_calls"][0]["function"]["arguments"]["move"] for line in lines] == texts


@given(cut=st.integers(0, 4000))
def test_what_a_kill_cuts_off_is_played_again(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    collection = Collection.open(tmp_path_factory.mktemp("data"), SETTINGS)
    for index in range(3):
        collection.add(line_of(played(index, "🟩\u2028up"), "stairs"))
    content = collection.episodes.read_bytes()
    whole = content[:cut].count(b"\n")
    collection.episodes.write_bytes(content[:cut])
    reopened = Collection.open(collection.path, SETTINGS)
    assert reopened.indexes() == set(range(whole))
    for index in range(whole, 3):
        reopened.add(line_of(played(index, "🟩\u2028up"), "stairs"))
    assert reopened.episodes.read_bytes() == content


def test_left_out_episodes_are_not_played_again(tmp_path: Path) -> None:
    collection = Collection.open(tmp_path, SETTINGS)
    collection.add(line_of(played(0), "stairs"))
    collection.leave_out(LEFT_OUT, "reward below 1")
    assert collection.indexes() == {0, 2}
    assert collection.read_left_out() == [{**LEFT_OUT, "reason": "reward below 1"}]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    Collection.open(tmp_path, SETTINGS).leave_out(LEFT_OUT, "reward below 1")
    with pytest.raises(ConfigurationError, match=r"were played with seed 1, not 2\. Choose another --output"):
        Collection.open(tmp_path, {**SETTINGS, "seed": 2})
    with pytest.raises(ConfigurationError, match="were played with form None, not 'text'"):
        Collection.open(tmp_path, {**SETTINGS, "form": "text"})


def test_a_folder_without_an_episode_takes_other_settings(tmp_path: Path) -> None:
    """As after a model's wrong name, or a kill during the first episode."""
    Collection.open(tmp_path, SETTINGS).episodes.write_text('{"index": 0, "environ')
    other = {**SETTINGS, "seed": 2}
    assert json.loads(Collection.open(tmp_path, other).settings.read_text()) == other
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episodes.jsonl", "settings.json"]


def test_other_tasks_are_refused(tmp_path: Path) -> None:
    collection = Collection.open(tmp_path, SETTINGS)
    collection.add(line_of(played(0), "stairs"))
    collection.leave_out(LEFT_OUT, "reward below 1")
    same = {index: {"floor": "first", "seed": index} for index in range(4)}
    collection.check_tasks(same)
    collection.check_tasks({index: {"floor": "second", "seed": index} for index in (1, 3)})
    for index in (0, 2):
        with pytest.raises(ConfigurationError, match=rf"Episode {index} .* with the task .*'first'.* now it is .*'se"):
            collection.check_tasks({**same, index: {"floor": "second", "seed": index}})


def test_half_of_a_surrogate_pair_comes_back(tmp_path: Path) -> None:
    """JSON of a model may hold one, and UTF-8 can't."""
    collection = Collection.open(tmp_path, SETTINGS)
    collection.add(line_of(played(0, "\ud83d up"), "stairs"))
    (line,) = collection.read()
    assert line["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"move": "\ud83d up"}


def test_nothing_else_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("words")
    for path in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(ConfigurationError, match="is there already and holds no collection"):
            Collection.open(path, SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_settings_that_a_kill_cut_off_are_written_again(tmp_path: Path) -> None:
    """A kill while the folder is made leaves a draft at most, in an otherwise empty folder."""
    kept = tmp_path / "kept"
    with draft_of(tmp_path / "settings.json") as draft:
        draft.write_text('{"environm')
        shutil.copytree(draft.parent, kept)
    (tmp_path / "settings.json").unlink()
    kept.rename(draft.parent)
    settings: dict[str, Any] = json.loads(Collection.open(tmp_path, SETTINGS).settings.read_text())
    assert settings == SETTINGS


def test_components_are_summed_and_kept_for_each_step(tmp_path: Path) -> None:
    episode = Episode.of_task({"seed": 1})
    scores = [{"format": 1.0}, {"format": 1.0, "answer": 0.5}]
    for number, components in enumerate(scores):
        metadata = {"reward_signals": components} | ({"step_rewards": [0.25, 0.5]} if number else {})
        episode.add_turn("shown", "up", StepResult({}, reward=0.5, done=bool(number), metadata=metadata))
    collection = Collection.open(tmp_path / "data", SETTINGS)
    collection.add(line_of(PlayedEpisode(0, episode, [{"role": "user", "content": "shown"}], []), "stairs"))
    (line,) = collection.read()
    assert line["reward_components"] == {"format": 2.0, "answer": 0.5}
    assert (line["components"], line["step_rewards"]) == (scores, [0.25, 0.5])
