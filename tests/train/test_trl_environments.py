"""Environment classes such as TRL's own OpenEnv scripts have train in its trainer against our servers.

They use clients as those scripts do: blocking and without ``sync()``, one for each rollout, never closed or closed and
made anew at every reset, with the fields of observations and results that they read there.
"""

import asyncio
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from datasets import Dataset  # type: ignore[import-untyped]
from pydantic import Field
from tests.support.servers import RunningServer
from transformers.utils.chat_template_utils import get_json_schema
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from browsergym_env import BrowserGymAction, BrowserGymEnv
from browsergym_env.models import BrowserGymObservation
from browsergym_env.server.browser import shared_browser
from browsergym_env.server.browsergym_environment import BrowserGymEnvironment
from browsergym_env.server.settings import Settings as BrowserSettings
from echo_env import EchoEnv
from echo_env.models import EchoAction, EchoObservation
from echo_env.server.echo_environment import EchoEnvironment
from openenv import Environment, StepResult
from openenv.core import EnvClient
from openenv.core.env_server.app import create_app
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.exceptions import ServerCapacityError
from openenv.train.agents.tiny_tool_model import Call, make_tiny_model, play_episode
from openenv.train.quiet import quiet_libraries
from openspiel_env import OpenSpielEnv
from openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment
from openspiel_env.server.settings import Settings as GameSettings
from textarena_env import TextArenaAction, TextArenaEnv
from textarena_env.models import TextArenaObservation
from textarena_env.server.settings import Settings as TextSettings
from textarena_env.server.textarena_environment import TextArenaEnvironment

ROLLOUTS = 8
"""Episodes at once, and so what TRL says ``max_concurrent_envs`` has to be at least."""

Row = dict[str, Any]
Choose = Callable[[Any, Random], Call | None]


# --- Environment classes ---------------------------------------------------------------------------------------------


class Echo:
    """Never resets its client; gives TRL the reward by ``get_reward``."""

    url: ClassVar[str]

    def __init__(self) -> None:
        self.client: Any = EchoEnv(base_url=self.url)
        self.said: list[str] = []
        self._reward = 0.0

    def reset(self, **row: Any) -> None:
        self.said = []
        self._reward = 0.0

    def step(self, message: str) -> str:
        """
        Say something to the environment.

        Args:
            message: What to say.

        Returns:
            What comes back.
        """
        result = self.client.step(EchoAction(message=message))
        self._reward = result.observation.reward
        self.said.append(result.observation.echoed_message)
        return self.said[-1]

    def get_reward(self) -> float:
        return self._reward


class Catch:
    """Sees the ball in the numbers of OpenSpiel, and steps by action ids."""

    url: ClassVar[str]

    def __init__(self) -> None:
        self.client: Any = OpenSpielEnv(base_url=self.url)
        self.reward = 0.0
        self.done = False

    def reset(self, **row: Any) -> str:
        result = self.client.reset()
        self.reward = 0.0
        self.done = result.observation.done
        return columns_of(result.observation.info_state)

    def move(self, direction: str) -> str:
        """Push the paddle one column aside.

        Args:
            direction: Where to, "left" or "right".

        Returns:
            Where ball and paddle are.
        """
        if direction not in ("left", "right"):
            raise ValueError(f"no direction: {direction}")
        return self._act(0 if direction == "left" else 2)

    def stay(self) -> str:
        """Leave the paddle where it is.

        Returns:
            Where ball and paddle are.
        """
        return self._act(1)

    def _act(self, action_id: int) -> str:
        if self.done:
            raise ValueError("the ball is down")
        result = self.client.step(OpenSpielAction(action_id=action_id, game_name="catch"))
        self.reward = result.reward or 0.0
        self.done = result.observation.done
        return columns_of(result.observation.info_state)


def columns_of(info_state: Sequence[float]) -> str:
    """Find the ball, which is anywhere, and the paddle, which is in the last row of five."""
    assert len(info_state) == 50
    seen = [divmod(place, 5) for place, value in enumerate(info_state) if value == 1.0]
    ball = next(((row, column) for row, column in seen if row < 9), None)
    return f"ball {ball} paddle {[column for row, column in seen if row == 9]}"


class Wordle:
    """Reads what is new in a transcript that grows, by the length that it had before."""

    url: ClassVar[str]

    def __init__(self) -> None:
        self.client: Any = TextArenaEnv(base_url=self.url)

    def reset(self, **row: Any) -> None:
        self.client.reset()
        self.reward = -1.0
        self.done = False
        self.seen = ""

    def guess(self, guess: str) -> str:
        """
        Guess a word.

        Args:
            guess: The word in brackets, such as '[crane]'.

        Returns:
            What the game says.
        """
        if self.done:
            self.reward = -1.0
            raise ValueError("the game is over")
        result = self.client.step(TextArenaAction(message=guess))
        transcript = result.observation.messages[0].content
        assert transcript.startswith(self.seen)
        new, self.seen = str(transcript[len(self.seen) :]), transcript
        self.reward = -1.0 if "You attempted an invalid move" in new else result.reward
        self.done = result.done
        return new


class Sudoku:
    """Finds the board in the transcript, and judges moves by what is new in it."""

    url: ClassVar[str]
    max_turns = 3

    def __init__(self) -> None:
        self.client: Any = TextArenaEnv(base_url=self.url)

    def reset(self, **row: Any) -> str:
        result = self.client.reset()
        self.done = result.done
        self.turns = 0
        self.scores: list[float] = []
        self.seen = result.observation.messages[0].content
        self.board = board_in(self.seen)
        return written(self.board)

    def place(self, row: int, col: int, number: int) -> str:
        """Write a number on the board.

        Args:
            row: The row (1-9).
            col: The column (1-9).
            number: The number (1-9).

        Returns:
            What became of it.
        """
        if self.done:
            raise ValueError("no more moves")
        self.turns += 1
        result = self.client.step(TextArenaAction(message=f"[{row} {col} {number}]"))
        transcript = result.observation.messages[0].content
        new, self.seen = transcript[len(self.seen) :].lower(), transcript
        fits = self.board[row - 1][col - 1] == 0 and not any(
            word in new for word in ("invalid", "already", "violation")
        )
        self.scores.append(float(result.reward or 0.0) + fits)
        self.board = board_in(transcript)
        self.done = result.done or self.turns >= self.max_turns
        return f"{'valid' if fits else 'invalid'}\n{written(self.board)}"


def board_in(transcript: str) -> list[list[int]]:
    """Read the last board: nine lines that begin with R1 to R9, in which a dot is an empty cell."""
    lines = re.findall(r"^\s*R([1-9])\s(.*)$", transcript, re.MULTILINE)[-9:]
    assert [int(number) for number, _ in lines] == list(range(1, 10))
    board = [[int(cell) if cell.isdigit() else 0 for cell in re.findall(r"[.\d]", line)] for _, line in lines]
    assert [len(row) for row in board] == [9] * 9
    return board


def written(board: Sequence[Sequence[int]]) -> str:
    return "\n".join(" ".join(map(str, row)) for row in board)


class Several:
    """Two environments in one class: a column says which, and each reset closes the client and makes another."""

    wordle_url: ClassVar[str]
    catch_url: ClassVar[str]

    def __init__(self) -> None:
        self.wordle: Any = None
        self.catch: Any = None
        self.active = ""
        self.reward = 0.0
        self.done = False

    def reset(self, **row: Any) -> str:
        self.active = row["env"]
        self.reward = 0.0
        self.done = False
        if self.active == "wordle":
            if self.wordle is not None:
                self.wordle.close()
            self.wordle = TextArenaEnv(base_url=self.wordle_url)
            self.seen = str(self.wordle.reset().observation.messages[0].content)
            return self.seen
        if self.catch is not None:
            self.catch.close()
        self.catch = OpenSpielEnv(base_url=self.catch_url)
        result = self.catch.reset()
        self.done = result.observation.done
        return columns_of(result.observation.info_state)

    def guess(self, guess: str) -> str:
        """Guess a word.

        Args:
            guess: The word in brackets.

        Returns:
            What the game says.
        """
        if self.active != "wordle" or self.done:
            raise ValueError("no guess now")
        result = self.wordle.step(TextArenaAction(message=guess))
        transcript = result.observation.messages[0].content
        new, self.seen = str(transcript[len(self.seen) :]), transcript
        self.reward, self.done = result.reward, result.done
        return new

    def move(self, direction: str) -> str:
        """Push the paddle.

        Args:
            direction: "left" or "right".

        Returns:
            Where ball and paddle are.
        """
        if self.active != "catch" or self.done:
            raise ValueError("no move now")
        action_id = {"left": 0, "right": 2}[direction]
        result = self.catch.step(OpenSpielAction(action_id=action_id, game_name="catch"))
        self.reward, self.done = result.reward or 0.0, result.observation.done
        return columns_of(result.observation.info_state)


class Browser:
    """Reads the accessibility tree, and writes actions with Python's quotes."""

    url: ClassVar[str]
    max_steps = 3

    def __init__(self) -> None:
        self.client: Any = BrowserGymEnv(base_url=self.url)
        self.reward = 0.0
        self._done = False
        self._steps = 0
        self.observation: BrowserGymObservation

    def reset(self, **row: Any) -> str:
        self.reward = 0.0
        self._steps = 0
        self._lift_limit()
        result = self.client.reset()
        self._done = result.done
        return self._told(result.observation)

    def click(self, bid: str) -> str:
        """Click an element.

        Args:
            bid: Its id, the number in brackets.

        Returns:
            The page.
        """
        return self._act(f"click({bid!r})")

    def fill(self, bid: str, text: str) -> str:
        """Fill a field.

        Args:
            bid: The field's id.
            text: What to type.

        Returns:
            The page.
        """
        return self._act(f"fill({bid!r}, {text!r})")

    def send_keys(self, text: str) -> str:
        """Press keys.

        Args:
            text: The keys.

        Returns:
            The page.
        """
        return self._act(f"send_keys({text!r})")

    def scroll(self, direction: str) -> str:
        """Scroll the page.

        Args:
            direction: "up" or "down".

        Returns:
            The page.
        """
        return self._act(f"scroll({direction!r})")

    def noop(self) -> str:
        """Do nothing.

        Returns:
            The page.
        """
        return self._act("noop()")

    def _act(self, action_str: str) -> str:
        if self._done:
            return "It is over."
        self._steps += 1
        result = self.client.step(BrowserGymAction(action_str=action_str))
        reward = float(result.reward or 0.0)
        self._done = result.done or self._steps >= self.max_steps
        self.reward = float(reward > 0) if result.done else reward
        return self._told(result.observation)

    def _told(self, observation: BrowserGymObservation) -> str:
        self.observation = observation
        error = observation.error if observation.last_action_error else ""
        return f"Goal: {observation.goal}\n{error}\n{observation.axtree_txt[:2000]}"

    def _lift_limit(self) -> None:
        """Do what a script does to have messages of more than a megabyte: connect, and look for the bare socket."""
        self.client.connect()
        socket = self.client._ws
        assert socket is None, "there is a limit to raise"


class DriveAction(Action):
    action_type: str
    lane_direction: str | None = None


class DriveObservation(Observation):
    speed_kmh: float = 0.0
    nearby_actors: list[dict[str, Any]] = Field(default_factory=list)
    collision_detected: bool = False
    collided_with: str | None = None
    rubric_reward: float | None = None


class DriveEnvironment(Environment[DriveAction, DriveObservation, State]):
    """A road with a pedestrian ahead, in place of a simulator, for one session."""

    def reset(self, scenario_name: str = "") -> DriveObservation:
        assert scenario_name == "pedestrian"
        self.distance, self.speed, self.lane = 30.0, 36.0, 0
        return self._seen()

    def step(self, action: DriveAction) -> DriveObservation:
        if action.action_type == "emergency_stop":
            self.speed = 0.0
        if action.action_type == "lane_change":
            self.lane += 1 if action.lane_direction == "right" else -1
        self.distance -= self.speed / 36
        return self._seen()

    def _seen(self) -> DriveObservation:
        hit = self.distance <= 0 and self.lane == 0
        ahead = [{"type": "pedestrian", "distance": self.distance}] if self.distance > 0 else []
        return DriveObservation(
            speed_kmh=self.speed,
            nearby_actors=ahead,
            collision_detected=hit,
            collided_with="pedestrian" if hit else None,
            rubric_reward=-1.0 if hit else 1.0,
            done=hit,
        )

    @property
    def state(self) -> State:
        return State()


class DriveEnv(EnvClient[DriveAction, DriveObservation, State]):
    """A client with parsers by hand, which reads fields by ``get``."""

    def _step_payload(self, action: DriveAction) -> Row:
        return action.model_dump(exclude_none=True, exclude={"metadata"})

    def _parse_result(self, payload: Row) -> StepResult[DriveObservation]:
        shown = payload.get("observation", {})
        read = DriveObservation(**shown, done=payload.get("done", False), reward=payload.get("reward"))
        return StepResult(observation=read, reward=payload.get("reward"), done=payload.get("done", False))

    def _parse_state(self, payload: Row) -> State:
        return State(**payload)


class Drive:
    """Has a loop of its own, in which it runs what a call returns where that is a coroutine; a server for each."""

    urls: ClassVar[Iterator[str]]
    loops: ClassVar[list[asyncio.AbstractEventLoop]] = []

    def __init__(self) -> None:
        self.client: Any = DriveEnv(base_url=next(self.urls), connect_timeout_s=30, message_timeout_s=120)
        self.loop = asyncio.new_event_loop()
        self.loops.append(self.loop)
        self.reward = 0.0
        self.calls = 0

    def reset(self, **row: Any) -> str:
        self.reward, self.calls = 0.0, 0
        return self._told(self._ended(self.client.reset(scenario_name="pedestrian")))

    def observe(self) -> str:
        """Let time go by.

        Returns:
            What there is to see.
        """
        return self._later()

    def emergency_stop(self) -> str:
        """Brake.

        Returns:
            What there is to see.
        """
        self._ended(self.client.step(DriveAction(action_type="emergency_stop")))
        return self._later()

    def lane_change(self, direction: str) -> str:
        """Take another lane.

        Args:
            direction: "left" or "right".

        Returns:
            What there is to see.
        """
        self._ended(self.client.step(DriveAction(action_type="lane_change", lane_direction=direction)))
        return self._later()

    def _later(self) -> str:
        self.calls += 1
        for _ in range(10):
            result = self._ended(self.client.step(DriveAction(action_type="observe")))
            if result.done:
                break
        self.reward = result.observation.rubric_reward or 0.0
        return self._told(result)

    def _ended(self, result: Any) -> Any:
        if asyncio.iscoroutine(result):
            asyncio.set_event_loop(self.loop)
            return self.loop.run_until_complete(result)
        return result

    def _told(self, result: Any) -> str:
        seen = result.observation
        ahead = ", ".join(f"{actor['type']} at {actor['distance']}" for actor in seen.nearby_actors)
        return (
            f"{seen.speed_kmh:.0f} km/h, {ahead or 'nothing ahead'}{', a collision' if seen.collision_detected else ''}"
        )


# --- Players in the model's place, for the first episodes that it is shown --------------------------------------------


def say_something(environment: Echo, random: Random) -> Call | None:
    messages = ["Hello!", "Hello, world, how are you?", "Good bye"]
    return None if environment.said else ("step", {"message": random.choice(messages)})


def move_anywhere(environment: Any, random: Random) -> Call | None:
    moves: list[Call] = [("move", {"direction": "left"}), ("move", {"direction": "right"})]
    if isinstance(environment, Catch):
        moves.append(("stay", {}))
    return None if environment.done else random.choice(moves)


def guess_words(environment: Any, random: Random) -> Call | None:
    # TextArena forgives one guess that is no word.
    return (
        None if environment.done else ("guess", {"guess": random.choice(["[crane]", "[slate]", "[mouse]", "[qqqqq]"])})
    )


def guess_or_move(environment: Several, random: Random) -> Call | None:
    return (guess_words if environment.active == "wordle" else move_anywhere)(environment, random)


def fill_cells(environment: Sudoku, random: Random) -> Call | None:
    if environment.done:
        return None
    row, col, number = (random.randint(1, 9) for _ in range(3))
    return "place", {"row": row, "col": col, "number": number}


def drive(environment: Drive, random: Random) -> Call | None:
    calls: list[Call] = [("observe", {}), ("emergency_stop", {}), ("lane_change", {"direction": "left"})]
    return None if environment.calls else random.choice(calls)


def browse(environment: Browser, random: Random) -> Call | None:
    if environment._done:
        return None
    button = re.search(r"\[(\w+)\] button", environment.observation.axtree_txt)
    calls: list[Call] = [("noop", {}), ("scroll", {"direction": "down"}), ("send_keys", {"text": "it's"})]
    calls.append(("fill", {"bid": "1", "text": "O'Connor"}))
    calls += [("click", {"bid": button[1]})] * 12 if button else []
    return random.choice(calls)


# --- Training --------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    with quiet_libraries():
        yield


def train(
    environment_class: type[Any],
    choose: Choose,
    folder: Path,
    *,
    rows: Sequence[Row] = ({},),
    reward_funcs: Any = None,
    max_calls: int = 12,
    rollouts: int = ROLLOUTS,
    completion_length: int = 1024,
    shown_batches: int = 40,
) -> tuple[list[Any], dict[str, float]]:
    """Train a tiny model for two steps on as many rollouts; return their environments and what the first logged."""
    prompt = [{"role": "user", "content": "Play.\n"}]
    environment, random = environment_class(), Random(1)
    tools = [get_json_schema(getattr(environment, name)) for name in tools_of(environment_class)]
    shown = [
        (play_episode(environment, prompt, row, partial(choose, environment, random), max_calls), tools)
        for row in islice(cycle(rows), 16)
    ]
    for client in vars(environment).values():
        if hasattr(client, "base_url"):
            client.close()
    model, tokenizer = make_tiny_model(shown, folder, shown_batches)
    trainer: Any = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=reward_funcs,
        train_dataset=Dataset.from_list([{"prompt": prompt, **row} for row in islice(cycle(rows), rollouts)]),
        environment_factory=environment_class,
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=2,
            per_device_train_batch_size=rollouts,
            num_generations=4,
            max_completion_length=completion_length,
            shuffle_dataset=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            activation_checkpointing=False,
            disable_tqdm=True,
        ),
    )
    trainer.train()
    return list(trainer.environments), trainer.state.log_history[0]


def tools_of(environment_class: type) -> list[str]:
    """Name the tools, as TRL finds them."""
    functions = [name for name, _ in inspect.getmembers(environment_class, inspect.isfunction)]
    return [name for name in functions if not name.startswith("_") and name not in ("reset", "get_reward")]


def rewards_of(environments: Sequence[Any], **_: Any) -> list[float]:
    return [environment.reward for environment in environments]


@pytest.fixture
def serve() -> Iterator[Callable[..., RunningServer]]:
    """Serve environments as the scripts' servers do, with room for one session a rollout."""
    servers: list[RunningServer] = []

    def start(
        environment: Any, action: type[Action], observation: type[Observation], max_concurrent_envs: int = ROLLOUTS
    ) -> RunningServer:
        app = create_app(environment, action, observation, max_concurrent_envs=max_concurrent_envs)
        servers.append(RunningServer(app).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


ECHO = (EchoEnvironment, EchoAction, EchoObservation)
CATCH = (partial(OpenSpielEnvironment, GameSettings()), OpenSpielAction, OpenSpielObservation)


def text_arena(game: str) -> tuple[Any, ...]:
    settings = TextSettings.from_variables({"TEXTARENA_ENV_ID": game, "TEXTARENA_HISTORY": "cumulative"})
    return partial(TextArenaEnvironment, settings), TextArenaAction, TextArenaObservation


def test_echo_which_is_never_reset(
    serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = serve(*ECHO)
    monkeypatch.setattr(Echo, "url", server.url, raising=False)

    environments, logged = train(Echo, say_something, tmp_path)

    assert logged["tools/call_frequency"] > 0.5
    assert logged["tools/failure_frequency"] == 0.0
    said = [environment for environment in environments if environment.said]
    assert said
    for environment in said:
        assert environment.get_reward() == pytest.approx(len(environment.said[-1]) / 10)
    assert logged["rewards/Echo/mean"] > 0.0


def test_catch(serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = serve(*CATCH)
    monkeypatch.setattr(Catch, "url", server.url, raising=False)

    environments, logged = train(Catch, move_anywhere, tmp_path, reward_funcs=rewards_of)

    assert server.sessions.active_sessions == ROLLOUTS, "one session a rollout"
    assert logged["tools/call_frequency"] > 4.0
    ended = [environment for environment in environments if environment.done]
    assert {environment.reward for environment in ended} in ({1.0}, {-1.0}, {1.0, -1.0})


def test_wordle(serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Wordle, "url", serve(*text_arena("Wordle-v0")).url, raising=False)

    environments, logged = train(Wordle, guess_words, tmp_path, max_calls=2, reward_funcs=rewards_of)

    assert logged["tools/call_frequency"] > 1.0
    played = [environment for environment in environments if environment.seen]
    assert all("[GAME]" in environment.seen and "Feedback" in environment.seen for environment in played)
    assert {environment.reward for environment in played} <= {-1.0, 0.0, 1.0}
    assert len(played) >= ROLLOUTS // 2


def test_sudoku(serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Sudoku, "url", serve(*text_arena("Sudoku-v0")).url, raising=False)

    def valid_moves(environments: Sequence[Sudoku], **_: Any) -> list[float]:
        return [sum(environment.scores) for environment in environments]

    environments, logged = train(
        Sudoku, fill_cells, tmp_path, reward_funcs=[valid_moves], rollouts=4, completion_length=2048, shown_batches=120
    )

    assert logged["tools/call_frequency"] > 0.5
    assert any(environment.scores for environment in environments)


def test_wordle_and_catch_in_one_class(
    serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wordle, catch = serve(*text_arena("Wordle-v0")), serve(*CATCH)
    monkeypatch.setattr(Several, "wordle_url", wordle.url, raising=False)
    monkeypatch.setattr(Several, "catch_url", catch.url, raising=False)

    def wordle_reward(environments: Sequence[Several], **_: Any) -> list[float | None]:
        return [environment.reward if environment.active == "wordle" else None for environment in environments]

    def catch_reward(environments: Sequence[Several], **_: Any) -> list[float | None]:
        return [environment.reward if environment.active == "catch" else None for environment in environments]

    environments, logged = train(
        Several,
        guess_or_move,
        tmp_path,
        max_calls=2,
        rows=[{"env": "wordle"}, {"env": "catch"}],
        shown_batches=80,
        reward_funcs=[wordle_reward, catch_reward],
    )

    assert Counter(environment.active for environment in environments) == {"wordle": 4, "catch": 4}
    assert logged["tools/call_frequency"] > 1.0
    assert -1.0 <= logged["rewards/catch_reward/mean"] <= 1.0
    assert 0.0 <= logged["rewards/wordle_reward/mean"] <= 1.0
    assert (wordle.sessions.active_sessions, catch.sessions.active_sessions) == (4, 4), "closed clients leave nothing"


def test_a_car_on_a_server_of_its_own(
    serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    servers = [serve(DriveEnvironment, DriveAction, DriveObservation, max_concurrent_envs=1) for _ in range(4)]
    monkeypatch.setattr(Drive, "urls", cycle([server.url for server in servers]), raising=False)

    environments, logged = train(Drive, drive, tmp_path, reward_funcs=rewards_of, rollouts=4)
    while Drive.loops:
        Drive.loops.pop().close()

    assert logged["tools/call_frequency"] > 0.5
    assert {environment.reward for environment in environments} <= {-1.0, 0.0, 1.0}
    assert any(environment.calls for environment in environments)


@pytest.mark.needs("browser")
def test_a_browser(serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = BrowserSettings(task_name="click-test", screenshot=False, timeout_ms=60_000)
    server = serve(partial(BrowserGymEnvironment, settings), BrowserGymAction, BrowserGymObservation)
    monkeypatch.setattr(Browser, "url", server.url, raising=False)

    try:
        environments, logged = train(Browser, browse, tmp_path, reward_funcs=rewards_of, rollouts=4)
    finally:
        server.stop()
        shared_browser(settings).stop()

    assert logged["tools/call_frequency"] > 0.5
    assert logged["rewards/rewards_of/mean"] > 0.0
    assert all(environment.observation.goal == "Click the button." for environment in environments)


def test_a_server_with_too_few_sessions_says_so(
    serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = serve(*CATCH, max_concurrent_envs=ROLLOUTS - 1)
    monkeypatch.setattr(Catch, "url", server.url, raising=False)

    with pytest.raises(ServerCapacityError, match=f"{ROLLOUTS - 1}/{ROLLOUTS - 1} sessions active"):
        train(Catch, move_anywhere, tmp_path, reward_funcs=rewards_of, shown_batches=1)
