"""Projects of other libraries, as their authors make them."""

from pathlib import Path

from tests.support.environment_folders import write_files

RIDDLE = '''
    """Riddles."""

    from openreward.environments import Environment, Server, TextBlock, ToolOutput, terminal, tool
    from pydantic import BaseModel

    TASKS = {"train": [{"word": "hello"}, {"word": "world"}], "test": [{"word": "other"}]}


    class Word(BaseModel):
        word: str


    class Riddle(Environment):
        """Tell the word of the task."""

        closed = 0

        def setup(self):
            self.calls = 0

        def teardown(self):
            type(self).closed += 1

        @classmethod
        def list_splits(cls):
            return list(TASKS)

        @classmethod
        def list_tasks(cls, split):
            return TASKS[split]

        async def get_prompt(self):
            return [TextBlock(text=f"Tell me {self.task_spec['word']}.")]

        @tool
        def look(self) -> ToolOutput:
            """Look around."""
            self.calls += 1
            return ToolOutput(blocks=[TextBlock(text=f"{self.calls}")])

        @tool
        async def tell(self, params: Word) -> ToolOutput:
            """Say a word."""
            right = params.word == self.task_spec["word"]
            blocks = [TextBlock(text="right" if right else "wrong")]
            return ToolOutput(blocks=blocks, reward=float(right), finished=right)

        @terminal
        @tool
        async def answer(self, params: Word) -> ToolOutput:
            """Take what the model says last."""
            return ToolOutput(blocks=[], reward=0.25, finished=True)

        @tool
        def break_down(self) -> ToolOutput:
            """Give no number."""
            return ToolOutput(blocks=[], reward=float("nan"))


    if __name__ == "__main__":
        Server([Riddle]).run()
    '''

# The part of verifiers that a project uses and that our code calls: the package takes 10 s of CPU to be imported.
VERIFIERS = """
    class Rubric:
        def __init__(self, funcs, weights):
            self.funcs, self.weights = funcs, weights

        async def score_rollout(self, state):
            scores = [await func(state["completion"], state["answer"]) for func in self.funcs]
            state["metrics"] = {func.__name__: score for func, score in zip(self.funcs, scores)}
            state["reward"] = sum(score * weight for score, weight in zip(scores, self.weights))


    class SingleTurnEnv:
        def __init__(self, dataset, rubric, eval_dataset=None):
            self.dataset, self.eval_dataset, self.rubric = dataset, eval_dataset, rubric

        def get_dataset(self, n=-1, seed=None):
            return self.dataset

        def get_eval_dataset(self, n=-1, seed=None):
            return self.eval_dataset or self.dataset
    """

SUMS = '''
    """Sums of two numbers."""

    import verifiers as vf


    async def correct(completion, answer):
        if completion[-1]["content"] == "crash":
            raise RuntimeError("no judge")
        return float(completion[-1]["content"] == answer)


    async def brief(completion, answer):
        return 1.0 / len(completion)


    def load_environment(start: int = 1, **kwargs):
        rows = [{"question": f"{n} + {n}?", "answer": str(2 * n)} for n in range(start, start + 3)]
        prompt = [{"role": "system", "content": "Add."}, {"role": "user", "content": "9 + 9?", "name": None}]
        hard = {"prompt": prompt, "answer": "18", "info": '{"hard": true}'}
        rubric = vf.Rubric(funcs=[correct, brief], weights=[1.0, 0.5])
        return vf.SingleTurnEnv(rows, rubric, eval_dataset=[hard])
    '''

PYPROJECT = """
    [project]
    name = "{name}"
    version = "0.1.0"
    dependencies = []
    """


def ors_project(parent: Path, name: str = "riddles") -> Path:
    """Make a project of the OpenReward SDK: a ``server.py`` and a list of requirements."""
    files = {"server.py": RIDDLE, "requirements.txt": "openreward>=0.1.167\n--no-binary :all:\npydantic\n"}
    return write_files(parent / name, files)


def verifiers_project(parent: Path, name: str = "sums") -> Path:
    """Make a project of verifiers: a module and a ``pyproject.toml``, with the part of verifiers that it uses."""
    files = {f"{name}.py": SUMS, "verifiers.py": VERIFIERS, "pyproject.toml": PYPROJECT.format(name=name)}
    return write_files(parent / name, files)
