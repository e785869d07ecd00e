"""Environments that are broken in one way each, with the check that finds it and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.environment_folders import fresh_scaffold, write_files

PROJECT = """
    [build-system]
    build-backend = "setuptools.build_meta"

    [project]
    name = "openenv-my_env"
    dependencies = ["openenv-core"]

    [tool.setuptools]
    packages = ["my_env", "my_env.server"]
    package-dir = { "my_env" = ".", "my_env.server" = "server" }

    [tool.setuptools.package-data]
    my_env = ["openenv.yaml"]
    """
"""How a scaffold is packaged, with a single data file."""
ENVIRONMENT = "server/walk_environment.py"
WALK = {
    "openenv.yaml": """
        name: walk_env
        environment: server.walk_environment:WalkEnvironment
        client: client:WalkEnv
        player: player:make_player
        """,
    "__init__.py": "",
    "models.py": """
        from typing import Any, Literal

        from openenv import Action, Observation

        class WalkAction(Action):
            way: Literal["left", "right"]

        class WalkObservation(Observation):
            at: int
            goal: int
            seen: Any = None
        """,
    "client.py": """
        from openenv import State, TypedEnvClient

        from walk_env.models import WalkAction, WalkObservation

        class WalkEnv(TypedEnvClient[WalkAction, WalkObservation, State]):
            pass
        """,
    "player.py": """
        from walk_env.models import WalkAction

        def make_player(seed):
            def choose(observation):
                pass  # in the player
                return WalkAction(way="left" if observation.goal < observation.at else "right")

            return choose
        """,
    "server/__init__.py": "",
    ENVIRONMENT: """
        from random import Random

        from openenv import Environment, State

        from walk_env.models import WalkAction, WalkObservation

        MOVES = {"left": -1, "right": 1}
        pass  # at the top

        class WalkEnvironment(Environment[WalkAction, WalkObservation, State]):
            SUPPORTS_CONCURRENT_SESSIONS = True

            def __init__(self):
                super().__init__()
                self._steps, self._total = 0, 0.0
                pass  # in the constructor

            def reset(self, seed=None):
                random = Random(seed)
                self._at, self._goal, self._steps = 0, random.choice((-4, -3, 3, 4)), 0
                seen, over = None, False
                pass  # in reset
                return WalkObservation(at=self._at, goal=self._goal, seen=seen, reward=0.0, done=over)

            def step(self, action):
                self._steps += 1
                self._at += MOVES[action.way]
                reward = 1.0 if self._at == self._goal else 0.0
                seen, over = None, reward > 0 or self._steps == 6
                pass  # in step
                return WalkObservation(at=self._at, goal=self._goal, seen=seen, reward=reward, done=over)

            @property
            def state(self):
                state = State(step_count=self._steps)
                pass  # in state
                return state
        """,
}


@dataclass(frozen=True)
class Broken:
    """An environment that is broken in one way.

    Attributes:
        name: What is wrong.
        check: The check that finds it.
        evidence: A part of what the check says.
        edits: A file, a text in it, and what stands there instead.
        files: Further files.
        status: ``fail``, or ``warn`` where it may be meant so.
    """

    name: str
    check: str
    evidence: str
    edits: Sequence[tuple[str, str, str]] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    status: str = "fail"

    def write(self, parent: Path) -> Path:
        """Write its folder: the scaffold's where the files are at fault, else that of a small environment."""
        folder = fresh_scaffold(parent, "my_env") if self in IN_FILES else write_files(parent / "walk_env", WALK)
        for path, old, new in self.edits:
            text = (folder / path).read_text()
            assert old in text, f"{path} has no {old!r}"
            (folder / path).write_text(text.replace(old, new, 1))
        return write_files(folder, dict(self.files))


def _at(mark: str, code: str, path: str = ENVIRONMENT) -> list[tuple[str, str, str]]:
    return [(path, f"pass  # {mark}\n", f"{code}\n")]


def _scaffold(lines: str) -> list[tuple[str, str, str]]:
    return [("server/my_env_environment.py", "class MyEnvironment", f"{lines}\n\n\nclass MyEnvironment")]


IN_FILES = [
    Broken("a syntax error", "static.syntax", "client.py:1: '(' was never closed", [("client.py", '"""', '("""')]),
    Broken(
        "a field without a type",
        "static.models",
        ": MyObservation.y has no type.",
        [("models.py", "y: int = Field", "y = Field")],
    ),
    Broken(
        "an import that nothing requires",
        "static.requirements",
        "imports numpy, which pyproject.toml",
        _scaffold("import numpy"),
    ),
    Broken(
        "an import that the image's list lacks",
        "static.requirements",
        "imports numpy, which server/requirements.txt does not require.",
        [*_scaffold("import numpy"), ("pyproject.toml", ">=0.11.0", '>=0.11.0", "numpy')],
    ),
    Broken(
        "an import in a function that nothing requires",
        "static.requirements",
        "imports numpy",
        _scaffold("def later():\n    import numpy"),
        status="warn",
    ),
    Broken(
        "an import by its name that nothing requires",
        "static.requirements",
        "imports numpy",
        _scaffold("import importlib\n\ndef later():\n    return importlib.import_module('numpy.random')"),
        status="warn",
    ),
    Broken(
        "an import in the case of a match",
        "static.requirements",
        "imports numpy",
        _scaffold("import sys\n\nmatch sys.platform:\n    case 'linux':\n        import numpy"),
    ),
    Broken(
        "a package that is not installed",
        "static.requirements",
        "imports no_such_package, which pyproject.toml does not require.",
        _scaffold("import no_such_package"),
    ),
    Broken(
        "a misspelt key",
        "static.manifest",
        "`runtine` is no key of openenv.yaml; did you mean `runtime`?",
        [("openenv.yaml", "runtime:", "runtine:")],
        status="warn",
    ),
    Broken(
        "texts of the scaffold beside others",
        "static.leftovers",
        'README.md:15 still has the text of `openenv init`: "Walk to a goal',
        [
            (
                "server/my_env_environment.py",
                "Rewards an agent that walks to a goal in time. Replace it with your own.",
                "Sorts numbers.",
            )
        ],
        status="warn",
    ),
    Broken(
        "a data file that is not in the wheel",
        "static.data",
        "data/words.bin is named in the code, and no package data",
        _scaffold("WORDS = __file__ + '/../../data/words.bin'"),
        {"data/words.bin": "a", "pyproject.toml": PROJECT},
    ),
    Broken(
        "a file of the folder where the server starts",
        "static.data",
        "opens words.txt, which this folder does not have.",
        _scaffold("def words():\n    return open('words.txt').read()"),
        status="warn",
    ),
    Broken(
        "a file of one machine",
        "static.data",
        "opens /data/words.txt, which only this machine may have.",
        _scaffold("from pathlib import Path\n\ndef words():\n    return Path('/data/words.txt').read_text()"),
        status="warn",
    ),
]

# A second field of the action, which is free text.
NOTED = [("models.py", 'way: Literal["left", "right"]', 'way: Literal["left", "right"]\n    note: str = ""')]

WHEN_RUN = [
    Broken(
        "a module that raises",
        "runtime.startup",
        "RuntimeError: broken",
        _at("at the top", "raise RuntimeError('broken')"),
    ),
    Broken("a constructor that raises", "runtime.startup", "KeyError: 'a'", _at("in the constructor", "{}['a']")),
    Broken("a reset that raises", "runtime.reset", f"{ENVIRONMENT}, line 22, in reset", _at("in reset", "{}['a']")),
    Broken(
        "a reset that opens a missing file", "runtime.reset", "FileNotFoundError", _at("in reset", "open('words.txt')")
    ),
    Broken(
        "a reset that ends the process",
        "runtime.reset",
        "exited with status 3",
        _at("in reset", "import os; os._exit(3)"),
    ),
    Broken(
        "a step that raises",
        "runtime.play",
        'step 1 with {"way": "left"}: KeyError: \'a\' (server/walk_environment.py, line 30, in step)',
        _at("in step", "{}['a']"),
    ),
    Broken("a later step that raises", "runtime.play", "step 3 with", _at("in step", "self._steps < 3 or {}['a']")),
    Broken("an action that raises", "runtime.play", "KeyError: 'right'", [(ENVIRONMENT, ', "right": 1', "")]),
    Broken(
        "a step that ends the process", "runtime.play", "exited with status 3", _at("in step", "import os; os._exit(3)")
    ),
    Broken(
        "a step that never returns",
        "runtime.play",
        "had no answer within 3 s",
        _at("in step", "import threading; threading.Event().wait()"),
    ),
    Broken("a step that returns nothing", "runtime.play", "expected an observation", _at("in step", "return None")),
    Broken(
        "an observation without a field",
        "runtime.play",
        "ValidationError",
        _at("in step", "return WalkObservation(at=1)"),
    ),
    Broken("an observation that is no JSON", "runtime.play", "WalkObservation.seen", _at("in step", "seen = object()")),
    Broken(
        "an observation with NaN",
        "runtime.play",
        "WalkObservation: seen is not finite",
        _at("in step", "seen = float('nan')"),
    ),
    Broken(
        "a later observation with infinity, deep inside",
        "runtime.play",
        "WalkObservation: seen.a.1 is not finite",
        _at("in step", "seen = {'a': [None, float('-inf') if self._steps == 3 else 1.0]}"),
    ),
    Broken(
        "a first observation with infinity",
        "runtime.reset",
        "WalkObservation: seen is not finite",
        _at("in reset", "seen = float('inf')"),
    ),
    Broken("a state with NaN", "runtime.play", "State: odd is not finite", _at("in state", "state.odd = float('nan')")),
    Broken("a reward that is NaN", "runtime.play", "The reward is nan", _at("in step", "reward = float('nan')")),
    Broken("a reward that is a list", "runtime.play", "reward", _at("in step", "reward = [1]")),
    Broken(
        "an episode without an end",
        "runtime.episode_end",
        "no episode ended; that of the scripted player was left after 2000 steps",
        _at("in step", "over = False"),
    ),
    Broken(
        "an episode that is over at once",
        "runtime.episode_end",
        "reset returns an observation",
        _at("in reset", "over = True"),
    ),
    Broken(
        "a state that is no JSON", "runtime.play", "The state cannot be sent", _at("in state", "state.odd = object()")
    ),
    Broken("a state that raises", "runtime.play", "state after 0 steps: KeyError", _at("in state", "{}['a']")),
    Broken(
        "a seed that is not used",
        "runtime.seed_control",
        "two resets with seed 1 gave different",
        _at("in reset", "seen = Random().random()"),
        status="warn",
    ),
    Broken(
        "another answer than that on record",
        "runtime.recorded_episodes",
        "an episode on record has other answers, episode 0, request 0: ",
        [],
        {"tests/golden_episodes.json": '[[[{"type": "reset", "data": {"seed": 1}}, "{}"]]]'},
    ),
    Broken(
        "a seed that is always the same",
        "runtime.seed_effect",
        "9 seeds give the same episode, though reset draws from its seed",
        [(ENVIRONMENT, "random = Random(seed)", "seed = 7; random = Random(seed)")],
        status="warn",
    ),
    Broken(
        "a state that counts one step too many",
        "runtime.state_contract",
        "the state has the step_count 1 after a reset",
        _at("in state", "state.step_count += 1"),
        status="warn",
    ),
    Broken(
        "a state whose count a reset leaves",
        "runtime.state_contract",
        "after a reset",
        [
            *_at("in the constructor", "self._all = 0"),
            *_at("in step", "self._all += 1"),
            *_at("in state", "state.step_count = self._all"),
        ],
        status="warn",
    ),
    Broken(
        "a state that has another episode's name",
        "runtime.state_contract",
        "the state has the episode_id None after a reset with 'validated-episode'",
        [(ENVIRONMENT, "def reset(self, seed=None)", "def reset(self, seed=None, episode_id=None)")],
        status="warn",
    ),
    Broken(
        "an order that another process has not",
        "runtime.episode_determinism",
        "observation.seen.",
        _at("in step", "seen = list({'a', 'b', 'c', 'd', 'e', 'f', 'g'})"),
        status="warn",
    ),
    Broken(
        "a step that looks at the clock",
        "runtime.episode_determinism",
        "reward of step 1",
        _at("in step", "import time; reward = time.time()"),
        status="warn",
    ),
    Broken(
        "what a reset leaves behind",
        "runtime.episode_isolation",
        "an episode differs after another one in its session: observation.seen of step 1: 1.0 and ",
        _at("in step", "self._total += 1; seen = self._total"),
    ),
    Broken(
        "state of the class that grows",
        "runtime.process_isolation",
        "an episode differs after others in its process: observation.seen of step 1: ",
        _at("in step", "cls = type(self); cls.walked = seen = getattr(cls, 'walked', 0) + 1"),
    ),
    Broken(
        "a variable that each reset raises",
        "runtime.process_isolation",
        "an episode differs after others in its process: observation.seen of the reset: ",
        _at("in reset", "import os; seen = os.environ['WALKS'] = os.environ.get('WALKS', '') + 'x'"),
    ),
    Broken(
        "state that sessions share",
        "runtime.episode_isolation",
        "an episode differs while another session is played: observation.seen of step 1",
        [*_at("in reset", "MOVES['goal'] = self._goal"), *_at("in step", "seen = MOVES['goal']")],
    ),
    Broken(
        "the module random, which all share",
        "runtime.episode_isolation",
        "an episode differs while another session is played: observation.seen of step 1",
        [
            *_at("in reset", "import random as r; r.seed(seed)"),
            *_at("in step", "import random as r; seen = r.random()"),
        ],
    ),
    Broken(
        "an open file that each episode leaves",
        "runtime.endurance",
        "each episode leaves 1.0 open files: from",
        _at("in reset", "MOVES.setdefault('files', []).append(open(__file__))"),
    ),
    Broken(
        "a thread that each episode leaves",
        "runtime.endurance",
        "each episode leaves 1.0 threads: from",
        _at(
            "in reset",
            "import threading as t; t.Thread(target=MOVES.setdefault('end', t.Event()).wait, daemon=True).start()",
        ),
    ),
    Broken(
        "a process that each episode leaves",
        "runtime.endurance",
        "each episode leaves 1.0 child processes: from",
        _at("in reset", "import subprocess; MOVES.setdefault('started', []).append(subprocess.Popen(['true']))"),
    ),
    Broken(
        "memory that each episode leaves",
        "runtime.endurance",
        "the server's memory grows by",
        _at("in reset", "MOVES.setdefault('kept', []).append(b'x' * 400_000)"),
    ),
    Broken(
        "a long text that ends the process",
        "runtime.hostile_actions",
        "a long text as WalkAction.note gets no answer, or ends the session",
        [*NOTED, *_at("in step", "import os; len(action.note) < 999 or os._exit(3)")],
    ),
    Broken(
        "an action after which the session is of no use",
        "runtime.hostile_actions",
        "the session does not continue after a long text as WalkAction.note",
        [
            *NOTED,
            *_at("in step", "self.note = action.note"),
            *_at("in state", "len(getattr(self, 'note', '')) < 999 or {}['a']"),
        ],
    ),
    Broken(
        "an action after which no session plays as before",
        "runtime.hostile_actions",
        "a new session does not play as before: observation.seen of",
        [
            *NOTED,
            *_at("in step", "'\\0' in action.note and MOVES.setdefault('seen', 1)"),
            *_at("in reset", "seen = MOVES.get('seen')"),
        ],
    ),
    Broken(
        "an error of the grader that is booked as 0",
        "runtime.hostile_actions",
        "a text with NUL as WalkAction.note is booked as a reward of 0",
        [
            *NOTED,
            *_at(
                "in step",
                "bad = '\\0' in action.note; reward = 0.5 - bad / 2; seen = 'RecursionError: no' if bad else None",
            ),
        ],
    ),
    Broken(
        "a text that the grader can't read",
        "runtime.hostile_actions",
        "a long text as WalkAction.note gets an error instead of an answer: RecursionError: no",
        [*NOTED, *_at("in step", "if len(action.note) > 99: raise RecursionError('no')")],
        status="warn",
    ),
    Broken(
        "a session that a cut socket leaves for ever",
        "runtime.floods",
        "a new session does not play as before: ",
        [
            *_at(
                "in reset",
                "self.__dict__.get('open') or MOVES.update(n=MOVES.get('n', 0) + 1); self.open = True; "
                "MOVES['n'] < 11 or {}['no slots']",
            ),
            *_at("in step", "over and (MOVES.update(n=MOVES['n'] - self.open), setattr(self, 'open', False))"),
        ],
    ),
    Broken(
        "a player that returns a dict",
        "runtime.play",
        'it returned a dict, {"way": "left"}; expected an action, as in MyAction(...) (player.py, line 4)',
        _at("in the player", "return {'way': 'left'}", "player.py"),
    ),
    Broken(
        "a player that raises",
        "runtime.play",
        "KeyError: 'a' (player.py, line 5)",
        _at("in the player", "{}['a']", "player.py"),
    ),
    Broken(
        "a player that exits", "runtime.play", "SystemExit: 4", _at("in the player", "raise SystemExit(4)", "player.py")
    ),
    Broken(
        "a player that never returns",
        "runtime.play",
        "it chose nothing within 3 s",
        _at("in the player", "import threading; threading.Event().wait()", "player.py"),
    ),
    Broken(
        "a player that can't be imported",
        "runtime.play",
        "it can't be made: RuntimeError: broken (player.py, line 2)",
        [("player.py", "import WalkAction\n", "import WalkAction\nraise RuntimeError('broken')\n")],
    ),
    Broken(
        "a player whose action is refused",
        "runtime.play",
        'step 1 with {"way": "left"} was refused: ',
        _at("in step", "from openenv import IllegalActionError; raise IllegalActionError('no')"),
    ),
    Broken(
        "a client that can't read an answer",
        "runtime.play",
        "the scripted player: reset: KeyError: 'z' (client.py, line 7)",
        [("client.py", "    pass", "    def _parse_result(self, payload):\n        return payload['z']")],
    ),
]

IN_PROCESS = [
    Broken(
        "a player that ends the process as if all were well",
        "runtime.play",
        "its process exited with status 0: the player, the client or the models end it, with os._exit or by a crash in "
        "a library (player.py, line 5, in choose)",
        _at("in the player", "import os; os._exit(0)", "player.py"),
    ),
    Broken(
        "a client that crashes",
        "runtime.play",
        "(client.py, line 7, in _parse_result)",
        [
            (
                "client.py",
                "    pass",
                "    def _parse_result(self, payload):\n        import ctypes; ctypes.string_at(0)",
            )
        ],
    ),
    Broken(
        "a module of the player that ends the process",
        "runtime.play",
        "its process was ended by signal 9 (SIGKILL; it may have run out of memory)",
        [("player.py", "import WalkAction\n", "import WalkAction\nimport os; os.kill(os.getpid(), 9)\n")],
    ),
]
"""Faults that end the process of the checks, or block it."""
