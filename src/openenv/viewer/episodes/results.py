"""``results.json`` of an evaluation, as this version and earlier ones write it."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from openenv.core.documents import read_json
from openenv.core.exceptions import ConfigurationError


class Estimated(BaseModel):
    """Mean over tasks, with the ends of its 95% confidence interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None


class TaskResults(BaseModel):
    """Task with its mean reward; an earlier version estimated none."""

    task: dict[str, Any]
    mean_reward: Estimated | None = None


class Results(BaseModel):
    """Results of an evaluation; ``openenv.train.evaluation.Evaluation`` has what each field is."""

    environment: str
    player: str
    success_reward: float = 1.0
    mean_reward: Estimated
    pass_at: dict[str, Estimated] = {}
    tasks: list[TaskResults] = []
    temperature: float | None = None
    greedy: "Results | None" = None
    reward_components: dict[str, Estimated] = {}

    def rows(self) -> list[dict[str, Any]]:
        """Return each estimate with its ``name`` and its ``kind``: ``reward``, ``component`` or ``chance``."""
        rows = [("reward", self._reward_name, self.mean_reward)]
        if self.greedy is not None:
            rows.append(("reward", self.greedy._reward_name, self.greedy.mean_reward))
        rows += [("component", name, estimate) for name, estimate in self.reward_components.items()]
        rows += [("chance", f"pass@{k}", estimate) for k, estimate in self.pass_at.items()]
        return [{"kind": kind, "name": name, **estimate.model_dump()} for kind, name, estimate in rows]

    @property
    def _reward_name(self) -> str:
        if self.temperature is None:
            return "reward"
        return f"reward, {'sampled' if self.temperature else 'greedy'}"


def read_results(folder: Path) -> tuple[Results | None, str | None]:
    """Read the results of an evaluation.

    Args:
        folder: The evaluation's folder.

    Returns:
        The results, ``None`` where there are none yet or they can't be read; and why they can't.
    """
    file = folder / "results.json"
    if not file.is_file():
        return None, None
    try:
        return Results.model_validate(read_json(file)), None
    except ConfigurationError as error:
        return None, str(error)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return None, (
            f"{file}: expected the results of openenv eval, but {where or 'the file'} is not as they have it "
            f"({first['msg']}). The same openenv eval command with --output {folder} writes them anew."
        )
