"""What a path leads to, and what is said where it leads to nothing."""

from pathlib import Path

import pytest
from tests.support.episode_folders import write_evaluation
from tests.support.trace_files import new_file

from openenv.core.exceptions import ConfigurationError
from openenv.records.run_folder import RunFolder
from openenv.records.run_start import RunStart
from openenv.train.settings.config import TrainConfig
from openenv.viewer import Source, find_traces


def run_in(folder: Path, name: str = "mine") -> RunFolder:
    run = TrainConfig(environment="catch", output_dir=folder, name=name).make_folder("catch")
    run.add_start(RunStart.now())
    return run


def test_folders_files_and_addresses_are_told_apart(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    assert Source.at(str(run.path)) == Source("mine", None, run=run.path)
    with run.held():
        assert Source.at(str(run.path)).traces == run.traces, "a run that has just begun has no traces yet"
    evaluation = write_evaluation(tmp_path / "words", {1: [1.0]})
    assert Source.at(str(evaluation)) == Source("words", evaluation / "traces.db", episodes=evaluation)
    (evaluation / "traces.db").unlink()
    assert Source.at(str(evaluation)).traces is None
    (evaluation / "results.json").unlink()
    assert Source.at(str(evaluation)).traces == evaluation / "traces.db", "its first trace may be yet to come"
    file = tmp_path / "own" / "some.db"
    file.parent.mkdir()
    new_file(file).close()
    assert Source.at(str(file)) == Source("own/some.db", file)
    assert Source.at(str(file.parent)) == Source("own", file)
    assert [Source.at(str(path)).view for path in (run.path, evaluation, file)] == ["run", "results", "traces"]


def test_a_database_s_password_is_no_part_of_its_name() -> None:
    for address in ("postgresql://me:pass@host/episodes", "postgresql://me@host/episodes?password=pass"):
        assert Source.at(address) == Source("postgresql://me@host/episodes", address)


def test_names_that_occur_twice_begin_with_the_folder_above(tmp_path: Path) -> None:
    paths = [write_evaluation(tmp_path / name, {1: [1.0]}) for name in ("before/words", "after/words", "other")]
    files = [tmp_path / name / "own" / "some.db" for name in ("before", "after")]
    for file in files:
        file.parent.mkdir()
        new_file(file).close()
    sources = Source.all_at([str(path) for path in (*paths, *files)])
    assert [source.name for source in sources] == [
        "before/words",
        "after/words",
        "other",
        "before/own/some.db",
        "after/own/some.db",
    ]
    assert [source.episodes for source in sources] == [*paths, None, None]
    address = "postgresql://me@host/episodes"
    assert {source.name for source in Source.all_at([address, address])} == {address}


def test_the_file_of_a_folder_is_found(tmp_path: Path) -> None:
    assert find_traces("postgresql://localhost/traces") == "postgresql://localhost/traces"
    (tmp_path / "traces.db").touch()
    assert find_traces(tmp_path) == find_traces(str(tmp_path)) == tmp_path / "traces.db"
    assert find_traces(tmp_path / "other.db") == tmp_path / "other.db"


def test_what_leads_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no file or folder nowhere\.$"):
        Source.at("nowhere")
    (tmp_path / "config.yaml").touch()
    (tmp_path / "metrics.jsonl").touch()
    (tmp_path / "settings.json").write_text('{"editor": "vim"}')
    with pytest.raises(ConfigurationError, match=r"a training run \(config.yaml and starts.jsonl\).*; found none\.$"):
        Source.at(str(tmp_path))
    for name in ("a.db", "b.db"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match=r"found the files .*a\.db, .*b\.db\. Name the file\.$"):
        Source.at(str(tmp_path))
    for number in range(6):
        run_in(tmp_path, f"run-{number}")
    write_evaluation(tmp_path / "words", {1: [1.0]})
    with pytest.raises(
        ConfigurationError, match=r"below it: .*words, .*run-0, .*run-3 and 2 more\. Name the folder\.$"
    ):
        Source.at(str(tmp_path))
