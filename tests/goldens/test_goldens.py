"""What commands, packages, traces and the viewer say today is what was recorded of them."""

from pathlib import Path

import pytest
from tests.goldens.golden import STORED, Golden, check, differences, message_of, normalised, stored, text_of
from tests.goldens.table import GOLDENS
from tests.goldens.viewer import COMPARED, FOLDERS, QUERIES, finished, unseen_routes

from openenv.viewer import Source, comparison_app, source_app

# The trainings have tests of their own, beside those of the training.
QUICK = [name for name in GOLDENS if not name.startswith("training-")]


@pytest.mark.level("socket")
@pytest.mark.parametrize("name", QUICK)
def test_what_is_made_now_is_what_was_recorded(name: str, tmp_path: Path) -> None:
    check(name, GOLDENS[name], tmp_path)


def test_every_golden_is_stored_and_nothing_else() -> None:
    assert sorted(path.stem for path in STORED.iterdir()) == sorted(GOLDENS)
    for name in GOLDENS:
        text = (STORED / f"{name}.json").read_text(encoding="utf-8")
        assert text == text_of(stored(name)), f"{name} was written by hand: python -m tests.goldens {name}"


def test_no_golden_has_a_path_of_the_machine_that_recorded_it() -> None:
    for path in sorted(STORED.parent.rglob("*")):
        if path.suffix in {".json", ".jsonl", ".yaml", ".sql"}:
            assert "/tmp/" not in path.read_text(encoding="utf-8"), path
            assert str(Path.home()) + "/" not in path.read_text(encoding="utf-8"), path


def test_every_route_of_the_viewer_is_in_a_golden(tmp_path: Path) -> None:
    folders = {kind: finished(kind, tmp_path) for kind in COMPARED}
    for kind in QUERIES:
        asked = stored(f"viewer-{kind}")["finished"]
        beside = stored("viewer-run")["finished"]
        assert unseen_routes([*asked, *beside], source_app(Source.at(str(folders[kind])))) == []
    app = comparison_app(Source.all_at([str(folder) for folder in folders.values()]))
    assert unseen_routes(stored("viewer-comparison")["finished"], app) == []
    assert unseen_routes([], app) == [
        "/web/compare/overview",
        "/web/compare/tasks",
        "/web/compare/difference/{first}/{second}",
    ]


def test_every_stored_folder_is_looked_at() -> None:
    assert sorted(path.name for path in FOLDERS.iterdir()) == sorted(COMPARED)


def make_a_path_and_a_time(folder: Path) -> object:
    return {"where": f"{folder}/run", "step_time": 0.5, "figures": (1, 2.0)}


def test_a_difference_is_shown_with_what_may_change_and_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    golden = Golden(f"{__name__}:make_a_path_and_a_time", may_change="nothing.")
    monkeypatch.setattr("tests.goldens.golden.STORED", tmp_path)
    folder = tmp_path / "made"
    (tmp_path / "mine.json").write_text(text_of({"where": "FOLDER/run", "figures": [1, 2.0]}))
    check("mine", golden, folder)
    (tmp_path / "mine.json").write_text(text_of({"where": "FOLDER/runs", "figures": [1, 2]}))
    with pytest.raises(AssertionError) as raised:
        check("mine", golden, folder)
    assert str(raised.value) == (
        "The golden 'mine' differs from what is made now (- recorded, + now):\n"
        "- figures[1]: 2\n+ figures[1]: 2.0\n"
        '- where: "FOLDER/runs"\n+ where: "FOLDER/run"\n'
        "What may change on purpose: nothing.\n"
        "Where the change is on purpose, record it and name it in the commit: python -m tests.goldens mine"
    )


def test_differences_of_lists_name_what_came_and_what_went() -> None:
    recorded = {"options": [{"name": "a"}, {"name": "b"}, {"name": "c", "help": "C."}]}
    made = {"options": [{"name": "a"}, {"name": "c", "help": "See."}, {"name": "d"}]}
    assert differences(recorded, {"options": recorded["options"][1:]}) == ['- options[0]: {"name": "a"}']
    assert differences(recorded, made) == [
        '+ options[1] / help: "See."',
        '- options[1] / name: "b"',
        '+ options[1] / name: "c"',
        '- options[2] / help: "C."',
        '- options[2] / name: "c"',
        '+ options[2] / name: "d"',
    ]
    assert differences({"x": True}, {"x": 1}) == ["- x: true", "+ x: 1"]
    assert differences({"x": [0.1]}, {"x": [0.1], "y": None}) == ["+ y: null"]


def test_many_differences_are_counted() -> None:
    message = message_of("many", "nothing.", [f"- line {number} {'x' * 999}" for number in range(100)])
    assert "- line 39 " in message
    assert "- line 40 " not in message
    assert "and 60 more lines" in message
    assert max(map(len, message.splitlines())) <= 300


def test_times_and_the_folder_are_normalised() -> None:
    assert normalised({"step_time": 1, "a": [{"train_runtime": 2, "b": "/x/y"}]}, Path("/x")) == {
        "a": [{"b": "FOLDER/y"}]
    }
