"""Tasks of an environment from each kind of source, and an environment that has them."""

import copy
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient
from tests.support.ors_wire import OrsWire
from tests.support.servers import RunningServer

from openenv import Action, Environment, GenericEnvClient, Observation, State, TaskSet
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import (
    ConfigurationError,
    InvalidRequestError,
    RequestRejectedError,
    ServerExecutionError,
    TaskNotFoundError,
)
from openenv.core.tasks import TaskRef
from openenv.core.tasks.task_set import MAX_STREAM_ROWS

ROWS: list[dict[str, Any]] = [
    {"country": "France", "capital": "Paris"},
    {"country": "Kenya", "capital": "Nairobi", "split": "test", "id": "ke", "difficulty": 0.5, "group": "Africa"},
    {"country": "Italy", "capital": "Rome"},
]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows into a file of the kind that its name ends with."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema=_schema(rows)), path)
    elif path.suffix == ".csv":
        names = list(_names(rows))
        lines = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
        path.write_text("\n".join(map(",".join, lines)))
    else:
        path.write_text("\n".join(map(json.dumps, rows)) if path.suffix == ".jsonl" else json.dumps(rows))
    return path


def _names(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for row in rows for name, value in row.items()}


def _schema(rows: list[dict[str, Any]]) -> pa.Schema:
    return pa.schema([(name, pa.scalar(value).type) for name, value in _names(rows).items()])


def numbers(first: int = 0) -> Iterator[dict[str, int]]:
    """Make tasks without end."""
    for number in itertools.count(first):
        yield {"number": number}


class LostHub(BaseHTTPRequestHandler):
    """A Hub that has no such revision."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "RevisionNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def lost_hub() -> Iterator[str]:
    """Serve ``LostHub`` and return its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), LostHub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class TestFiles:
    @pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.csv", "t.parquet"])
    def test_each_kind_of_file_has_the_same_tasks(self, tmp_path: Path, name: str) -> None:
        tasks = TaskSet(written(tmp_path / name, ROWS))
        assert tasks.task_counts == {"train": 2, "test": 1}
        listed = {"split": "test", "index": 0, "id": "ke", "difficulty": 0.5, "group": "Africa"}
        assert tasks.list_tasks("test") == [tasks.get_task("test", 0)] == [listed]
        assert tasks.list_tasks("train") == [{"split": "train", "index": index} for index in range(2)]
        given = tasks.arguments(TaskRef("train", 1))
        assert {name: value for name, value in given.items() if value is not None} == {
            "country": "Italy",
            "capital": "Rome",
            "split": "train",
            "index": 1,
        }

    def test_a_mapping_has_a_source_for_each_split(self, tmp_path: Path) -> None:
        file = written(tmp_path / "t.jsonl", [{"number": -1}])
        tasks = TaskSet({"train": numbers, "test": file, "held-out": [{"number": -2}]}, limit=3)
        assert tasks.task_counts == {"train": 3, "test": 1, "held-out": 1}
        assert tasks.row(TaskRef("held-out", 0)) == {"number": -2}

    def test_columns_have_other_names(self, tmp_path: Path) -> None:
        file = written(tmp_path / "t.csv", [{"q": "1+1", "uuid": "a", "fold": "dev"}])
        tasks = TaskSet(file, columns={"question": "q", "id": "uuid", "split": "fold"})
        assert tasks.list_tasks("dev") == [{"split": "dev", "index": 0, "id": "a"}]
        assert tasks.arguments(TaskRef("dev", 0))["question"] == "1+1"
        with pytest.raises(ConfigurationError, match=r"\[0\]: expected the column prompt; there are q, uuid, fold"):
            TaskSet(file, columns={"question": "prompt"}).read()

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("nowhere.jsonl", "There is no file .*nowhere.jsonl"),
            ("nowhere", "expected a file .*, a folder of them, or a dataset of the Hub with revision="),
            ([["a"]], r"TaskSet, train\[0\]: expected a task; a task is an object"),
            ({"test": [{}, "b"]}, r"TaskSet, test\[1\]: expected a task; a task is an object"),
            ({"test": 7}, "TaskSet, test: expected a list of tasks, got 7"),
            (7, "TaskSet: expected a list of tasks, got 7"),
            ([{"id": 1.5}], r"train\[0\]: expected a task; 'id' is a text or a whole number"),
            ([{"group": 1}], r"train\[0\]: expected a task; 'group' is a text"),
            ([{"difficulty": True}], r"train\[0\]: expected a task; 'difficulty' is a number, or a text"),
            ([{"difficulty": float("nan")}], "'difficulty' is a number, or a text"),
            ([{"a": object()}], "Expected a column 'id' in tasks without a key"),
        ],
    )
    def test_what_is_no_source_is_refused(self, source: Any, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            TaskSet(source).read()

    def test_what_the_author_checks_is_refused_without_what_it_holds(self) -> None:
        def check(task: Any) -> None:
            if len(task["answer"]) > 1:
                raise ValueError("'answer' is a letter")

        with pytest.raises(ConfigurationError, match=r"train\[1\]: expected a task; 'answer' is a letter\.$"):
            TaskSet([{"answer": "a"}, {"answer": "secret"}], check=check).read()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"limit": 0}, "the limit of a TaskSet to be 1 or more, got 0"),
            ({"revision": "main"}, "a commit with 40 hexadecimal digits, .*; got 'main'"),
        ],
    )
    def test_options_are_checked_at_once(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            TaskSet("org/tasks", **options)


class TestKeys:
    def test_a_key_is_the_id_or_the_content_wherever_the_task_stands(self) -> None:
        before, after = TaskSet(ROWS), TaskSet([{"country": "Peru", "capital": "Lima"}, *reversed(ROWS)])
        assert before.key("test", 0) == after.key("test", 0) == "id ke"
        assert before.key("train", 0) == after.key("train", 2)

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (
                [{"id": "a", "x": 1}, {"id": "a", "x": 2, "split": "test"}],
                r"train\[0\] and test\[0\] .* the same id 'a'",
            ),
            ([{"x": 1}, {"x": 2}, {"x": 1.0}], r"train\[0\] and train\[2\] have the same content, and no id"),
            ([{"x": 1}, {"x": 1, "split": "test"}], r"train\[0\] and test\[0\] have the same content"),
        ],
    )
    def test_no_task_is_there_twice(self, rows: list[dict[str, Any]], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            TaskSet(rows).read()

    def test_the_same_content_under_two_ids_is_two_tasks(self) -> None:
        assert TaskSet([{"x": 1, "id": 1}, {"x": 1, "id": 2}]).num_tasks("train") == 2


class TestArguments:
    @pytest.mark.parametrize(
        ("row", "arguments"),
        [
            ({"openenv_reset": {"level": 3}, "task": {"level": 2}, "level": 1}, {"level": 3}),
            ({"task": {"level": 2}, "level": 1, "difficulty": 1}, {"level": 2, "difficulty": 1}),
            ({"task": "climb", "level": 1}, {"task": "climb", "level": 1}),
            ({"split": "train", "index": 7, "level": 1}, {"level": 1}),
        ],
    )
    def test_a_row_is_what_reset_is_passed(self, row: dict[str, Any], arguments: dict[str, Any]) -> None:
        tasks = TaskSet([row])
        assert tasks.arguments(TaskRef("train", 0)) == {**arguments, "split": "train", "index": 0}

    def test_no_object_for_reset(self) -> None:
        with pytest.raises(ConfigurationError, match=r"an object in the column openenv_reset, got str"):
            TaskSet([{"openenv_reset": "level=3"}]).arguments(TaskRef("train", 0))

    def test_an_episode_can_t_change_the_tasks_of_others(self) -> None:
        tasks = TaskSet([{"moves": [1, 2]}])
        tasks.arguments(TaskRef("train", 0))["moves"].clear()
        assert tasks.arguments(TaskRef("train", 0))["moves"] == [1, 2]
        assert copy.deepcopy(tasks) is tasks

    def test_tasks_of_a_file_are_not_chosen_by_what_they_are_about(self) -> None:
        tasks = TaskSet([{"sum": "9*9"}])
        assert tasks.row(TaskRef("train", 0), level=None) == {"sum": "9*9"}
        with pytest.raises(InvalidRequestError, match="by split and index, not by level or kind"):
            tasks.row(TaskRef("train", 0), level="low", kind=None)


class TestStreams:
    def test_a_function_without_end_makes_the_tasks_that_are_needed(self) -> None:
        made: list[int] = []

        def source() -> Iterator[dict[str, int]]:
            for number in itertools.count():
                made.append(number)
                yield {"number": number, "difficulty": number}

        tasks = TaskSet(source)
        assert made == []
        assert tasks.get_task("train", 2) == {"split": "train", "index": 2, "difficulty": 2}
        assert tasks.row(TaskRef("train", 1))["number"] == 1
        assert made == [0, 1, 2]
        assert [task["index"] for task in tasks.get_task_range("train", 1, 5)] == [1, 2, 3, 4]
        assert tasks.choose_task(None, None, 12_345) == TaskRef("train", 345)
        for ask in (tasks.num_tasks, tasks.list_tasks, partial(tasks.get_task_range, start=-2)):
            with pytest.raises(NotImplementedError, match="made one after the other, and not counted"):
                ask("train")
        with pytest.raises(TaskNotFoundError, match=f"got {MAX_STREAM_ROWS}, which is after its end"):
            tasks.get_task("train", MAX_STREAM_ROWS)

    def test_a_function_that_ends(self) -> None:
        tasks = TaskSet(lambda: itertools.islice(numbers(), 3))
        assert len(tasks.get_task_range("train", 1, 100)) == 2
        with pytest.raises(TaskNotFoundError, match="got 3, which is after its end"):
            tasks.get_task("train", 3)
        assert TaskSet(lambda: itertools.islice(numbers(), 3), limit=7).num_tasks("train") == 3

    def test_tasks_after_one_that_could_not_be_made_are_no_fewer_tasks(self) -> None:
        def source() -> Iterator[dict[str, int]]:
            yield {"number": 0}
            raise OSError("the model is gone")

        tasks = TaskSet(source)
        with pytest.raises(OSError, match="the model is gone"):
            tasks.get_task("train", 1)
        with pytest.raises(ConfigurationError, match="The task 1 could not be made before"):
            tasks.get_task("train", 2)

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ("a", r"TaskSet\[0\]: expected a task; a task is an object"),
            ({"split": "test"}, r"TaskSet\[0\]: expected no column 'split' in rows that are made"),
        ],
    )
    def test_what_is_no_task_is_refused_when_it_is_made(self, row: Any, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            TaskSet(lambda: iter([row])).get_task("train", 0)


class TestDatasets:
    def test_a_dataset_is_not_read_in_advance(self) -> None:
        from datasets import Dataset  # type: ignore[import-untyped]

        data = Dataset.from_list([{**dict.fromkeys(_names(ROWS)), **row} for row in ROWS])
        tasks = TaskSet(data, columns={"place": "country"})
        assert tasks.task_counts == {"train": 2, "test": 1}
        listed = {"split": "test", "index": 0, "id": "ke", "difficulty": 0.5, "group": "Africa"}
        assert tasks.list_tasks("test") == [listed]
        assert tasks.arguments(TaskRef("train", 1))["place"] == "Italy"
        assert TaskSet(data, limit=1).task_counts == {"train": 1, "test": 1}
        with pytest.raises(ConfigurationError, match="expected the column prompt; there are country"):
            TaskSet(data, columns={"question": "prompt"}).read()
        with pytest.raises(ConfigurationError, match=r"train\[0\] and test\[0\] have the same id 'ke'"):
            TaskSet({"test": tasks.splits["test"], "train": [{"id": "ke"}]}).read()
        with pytest.raises(ConfigurationError, match="expected the column split, got 'Split'; rename it"):
            TaskSet(Dataset.from_list([{"Split": "test"}])).read()
        with pytest.raises(ConfigurationError, match=r"train\[0\]: expected a task; 'group' is a text"):
            TaskSet(Dataset.from_list([{"group": 1}])).row(TaskRef("train", 0))

    def test_splits_of_a_dict_and_of_what_has_no_end(self) -> None:
        from datasets import Dataset, DatasetDict, IterableDataset

        data = DatasetDict({"test": Dataset.from_list([{"x": 1}]), "train": Dataset.from_list([{"x": 2}, {"x": 3}])})
        assert TaskSet(lambda: data).choose_task(None, None, seed=3) == TaskRef("train", 1)
        endless = TaskSet(IterableDataset.from_generator(numbers))
        assert endless.row(TaskRef("train", 3)) == {"number": 3}
        assert endless.task_counts == {"train": None}

    def test_a_folder_is_read_as_the_library_does(self, tmp_path: Path) -> None:
        for x, split in enumerate(("train", "test")):
            written(tmp_path / f"{split}.jsonl", [{"x": x}])
        tasks = TaskSet(tmp_path)
        assert (tasks.task_counts, tasks.row(TaskRef("test", 0))) == ({"train": 1, "test": 1}, {"x": 1})
        with pytest.raises(ConfigurationError, match=r"can't be read from the dataset .*: .*other"):
            TaskSet(tmp_path, config="other").read()

    @pytest.mark.level("process")  # it runs Python
    def test_a_revision_that_is_gone(self, tmp_path: Path) -> None:
        program = f"from openenv import TaskSet; TaskSet('org/tasks', revision='{'0' * 40}').read()"
        with lost_hub() as address:
            variables = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
            done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True)
        assert "ConfigurationError: The tasks can't be read from the dataset org/tasks, revision 0000" in done.stderr
        assert f"Revision '{'0' * 40}' doesn't exist" in done.stderr


class Question(Observation):
    text: str = ""


class Answer(Action):
    name: str


class CapitalEnvironment(Environment[Answer, Question, State]):
    """Name the capital of a country."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    tasks = TaskSet(ROWS)

    def reset(self, country: str, capital: str, index: int, hint: bool = False, difficulty: float = 0.0) -> Question:
        self.capital = capital
        return Question(text=f"{country} {index} {difficulty}{' ' + capital[0] if hint else ''}")

    def step(self, action: Answer) -> Question:
        return Question(reward=float(action.name == self.capital), done=True)

    @property
    def state(self) -> State:
        return State()


class ThreadEnvironment(CapitalEnvironment):
    """The same in a thread of its own."""

    BLOCKING = True


class AwaitedEnvironment(CapitalEnvironment):
    """The same on the event loop."""

    async def reset(  # type: ignore[override]
        self, country: str, capital: str, index: int, hint: bool = False, difficulty: float = 0.0
    ) -> Question:
        return super().reset(country, capital, index, hint, difficulty)

    async def step(self, action: Answer) -> Question:  # type: ignore[override]
        return super().step(action)


class EverythingEnvironment(CapitalEnvironment):
    """Shows the columns of the task, and has its own."""

    tasks = TaskSet([{"a": 1, "b": None}])

    def reset(self, hint: bool = False, **columns: Any) -> Question:  # type: ignore[override]
        return Question(text=f"{hint} {columns}")


@pytest.mark.parametrize("environment", [CapitalEnvironment, ThreadEnvironment, AwaitedEnvironment])
def test_a_class_with_tasks_is_done(environment: type[CapitalEnvironment]) -> None:
    with (
        RunningServer(create_fastapi_app(environment, Answer, Question)) as server,
        GenericEnvClient(base_url=server.url).sync() as client,
    ):
        (task,) = client.tasks("test")
        assert task == {"split": "test", "index": 0, "id": "ke", "difficulty": 0.5, "group": "Africa"}
        assert client.reset(**task).observation["text"] == "Kenya 0 0.5"
        assert client.step({"name": "Nairobi"}).reward == 1.0
        assert client.reset(seed=1, hint=True).observation["text"] == "Italy 1 0.0 R"
        assert client.reset(split="train", index=0).observation["text"] == "France 0 0.0"
        schema = client.schemas()["reset"]
        assert (list(schema["properties"]), schema.get("required")) == (["hint", "seed", "split", "index"], None)
        for arguments, message in (
            ({"capital": "Bonn"}, "reset does not take 'capital'"),
            ({"split": "dev"}, r"no split 'dev'.* It has: train, test"),
            ({"split": "test", "index": 1}, "an index from 0 to 0 in the split test, got 1"),
            ({"seed": "x"}, "seed: Input should be a valid integer"),
        ):
            with pytest.raises(RequestRejectedError, match=message):
                client.reset(**arguments)
        assert client.step({"name": "Paris"}).reward == 1.0  # a reset that is refused ends no episode


@pytest.mark.level("process")  # it starts some
def test_processes_of_environments_have_the_tasks() -> None:
    app = create_fastapi_app(CapitalEnvironment, Answer, Question, isolation="process")
    with RunningServer(app) as server, GenericEnvClient(base_url=server.url).sync() as client:
        assert client.reset(**client.tasks("test")[0]).observation["text"] == "Kenya 0 0.5"
        assert client.step({"name": "Nairobi"}).reward == 1.0


def test_what_a_client_adds_to_a_task_does_not_reach_reset() -> None:
    with TestClient(create_fastapi_app(EverythingEnvironment, Answer, Question)) as http:
        body = {"split": "train", "index": 0, "a": 2, "c": 3, "seed": 5, "hint": True}
        text = http.post("/reset", json=body).json()["observation"]["text"]
    assert text == "True {'a': 1, 'split': 'train', 'index': 0}"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"country": "Peru"}, r"train\[0\]: expected a column for each parameter .*; capital: Field required"),
        ({"country": "Peru", "capital": 7}, "capital: Input should be a valid string"),
        ({"country": "Peru", "capital": "Lima", "hint": True}, "Expected no hint for reset: the task has its own"),
    ],
)
def test_a_task_that_reset_can_t_be_passed_is_no_episode(row: dict[str, Any], message: str) -> None:
    class OtherEnvironment(CapitalEnvironment):
        tasks = TaskSet([row])

    with (
        RunningServer(create_fastapi_app(OtherEnvironment, Answer, Question)) as server,
        GenericEnvClient(base_url=server.url).sync() as client,
        pytest.raises((ServerExecutionError, RequestRejectedError), match=message),
    ):
        client.reset(hint=False)


def test_the_routes_of_tasks_show_no_answer() -> None:
    with TestClient(create_fastapi_app(CapitalEnvironment, Answer, Question)) as http:
        name = http.get("/list_environments").json()[0]
        assert [split["name"] for split in http.get(f"/{name}/splits").json()] == ["train", "test"]
        answers = {
            "tasks": {"split": "train"},
            "num_tasks": {"split": "train"},
            "task": {"split": "train", "index": 1},
            "task_range": {"split": "train", "start": 1},
        }
        texts = [http.post(f"/{name}/{route}", json=body).text for route, body in answers.items()]
        assert json.loads(texts[1]) == {"num_tasks": 2}
        assert not any(row["capital"] in text for row in ROWS for text in texts)
        assert http.post(f"/{name}/task", json={"split": "train", "index": 2}).status_code == 400


def test_clients_of_ors_begin_the_tasks_that_they_list() -> None:
    app = create_fastapi_app(CapitalEnvironment, Answer, Question, env_name="capitals", max_concurrent_envs=2)
    with RunningServer(app) as server:
        for task in ({"split": "test", "index": 0}, {"task_spec": {"split": "train", "index": 1}}):
            with OrsWire(server) as wire:
                assert ("Kenya" if "split" in task else "Italy") in wire.begin(env_name="capitals", **task)


def test_tasks_that_are_not_counted_are_unsupported_lists() -> None:
    class NumberEnvironment(CapitalEnvironment):
        tasks = TaskSet(numbers)

        def reset(self, number: int) -> Question:  # type: ignore[override]
            return Question(text=str(number))

    with TestClient(create_fastapi_app(NumberEnvironment, Answer, Question)) as http:
        name = http.get("/list_environments").json()[0]
        assert http.post(f"/{name}/num_tasks", json={"split": "train"}).status_code == 501
        assert http.post(f"/{name}/task", json={"split": "train", "index": 9}).json()["task"]["index"] == 9
        assert http.post("/reset", json={"index": 9}).json()["observation"]["text"] == "9"


def test_a_server_without_its_tasks_does_not_start() -> None:
    class LostEnvironment(CapitalEnvironment):
        tasks = TaskSet("lost.csv")

    expected = str(Path(__file__).parent / "lost.csv")  # beside the module of the class
    with (
        pytest.raises(ConfigurationError, match=expected),
        TestClient(create_fastapi_app(LostEnvironment, Answer, Question)),
    ):
        pass


class ChoosingEnvironment(Environment[Answer, Question, State]):
    """Chooses among the tasks of its instance."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks = TaskSet(ROWS)

    def reset(self, seed: int | None = None, split: str | None = None, index: int | None = None) -> Question:
        return Question(text=self.tasks.row(self.tasks.choose_task(split, index, seed))["country"])

    def step(self, action: Answer) -> Question:
        return Question(done=True)

    @property
    def state(self) -> State:
        return State()


def test_an_instance_may_have_tasks_of_its_own() -> None:
    with TestClient(create_fastapi_app(ChoosingEnvironment, Answer, Question)) as http:
        name = http.get("/list_environments").json()[0]
        (task,) = http.post(f"/{name}/tasks", json={"split": "test"}).json()["tasks"]
        assert http.post("/reset", json=task).json()["observation"]["text"] == "Kenya"
