"""Files of an environment that decide its rewards and nothing else, so that a change in them changes no play."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from openenv.core.documents import read_text

__all__ = ["rubric_files"]

# Classes of openenv.core.rubrics that a rubric extends, but for judges, whose verdicts are others each time.
_BASES = frozenset({"Rubric", "WeightedSum", "Gate", "Sequential", "RubricList", "RubricDict"})
_TRAJECTORIES = frozenset({"TrajectoryRubric", "ExponentialDiscountingTrajectoryRubric"})
_CLIENT = "client.py"
# What a file of rubrics consists of.
_STATEMENTS = (
    ast.Import,
    ast.ImportFrom,
    ast.ClassDef,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Assign,
    ast.AnnAssign,
)
_SCORING = frozenset({"_apply_rubric", "_apply_rubric_async"})
# Attributes by which an environment could play by its rewards.
_REWARDS = frozenset({"reward", "last_score"})


def rubric_files(files: Iterable[Path]) -> list[Path]:
    """Return the files that decide the rewards alone; none where that is not certain.

    Such a file defines rubrics, and no other classes. The others import from it only these, and functions that return
    one by their annotation; name them only where the environment is given its rubric; set ``reward`` to its score; and
    read no reward, but for the client.

    Args:
        files: The files of an environment, of which those of Python are read.
    """
    try:
        trees = {file: ast.parse(read_text(file)) for file in files if file.suffix == ".py"}
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two of what is nested deeply
        return []
    rubrics = _rubrics_by_file(trees)
    names = {name for own in rubrics.values() for name in own}
    stems = {file.stem: own for file, own in rubrics.items()}
    others = {file: tree for file, tree in trees.items() if file not in rubrics}
    plays = [tree for file, tree in others.items() if file.name != _CLIENT]
    if len(stems) < len(rubrics) or any(_reads_reward(node) for tree in plays for node in ast.walk(tree)):
        return []
    if not all(_uses_rewards_alone(tree, names, stems) for tree in others.values()):
        return []
    return sorted(rubrics)


def _rubrics_by_file(trees: Mapping[Path, ast.Module]) -> dict[Path, frozenset[str]]:
    """Return the names of the rubrics, and of functions that return them, of each file that has no other classes."""
    found: dict[Path, frozenset[str]] = {}
    for file, tree in trees.items():
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        known = set(_BASES | _TRAJECTORIES)
        for each in classes:
            if each.bases and all(isinstance(base, ast.Name) and base.id in known for base in each.bases):
                known.add(each.name)
        own = {each.name for each in classes}
        if own and own <= known and all(isinstance(each, _STATEMENTS) or _is_text(each) for each in tree.body):
            makers = {each.name for each in tree.body if isinstance(each, ast.FunctionDef) and _makes(each, known)}
            found[file] = frozenset(own | makers)
    return found


def _makes(function: ast.FunctionDef, rubrics: set[str]) -> bool:
    return isinstance(function.returns, ast.Name) and function.returns.id in rubrics


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _uses_rewards_alone(tree: ast.Module, names: set[str], stems: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a file uses the rubrics for nothing but rewards."""
    allowed = {id(node) for rubric in _given_rubrics(tree) for node in ast.walk(rubric)}
    scores = {id(node) for node in _reward_values(tree)}
    return all(
        _imports_rubrics_alone(node, stems)
        and not (isinstance(node, ast.Name) and node.id in names and id(node) not in allowed)
        and not (_is_score(node) and id(node) not in scores)
        for node in ast.walk(tree)
    )


def _given_rubrics(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what environments are given as their rubrics."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "rubric":
            yield node.value
        if isinstance(node, ast.Assign) and _are(node.targets, "rubric"):
            yield node.value


def _reward_values(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what rewards are set to."""
    for node in ast.walk(tree):
        is_set = isinstance(node, ast.Assign) and _are(node.targets, "reward")
        if isinstance(node, ast.Assign | ast.keyword) and (is_set or getattr(node, "arg", None) == "reward"):
            yield node.value.value if isinstance(node.value, ast.Await) else node.value


def _are(targets: list[ast.expr], name: str) -> bool:
    return len(targets) == 1 and isinstance(targets[0], ast.Attribute) and targets[0].attr == name


def _is_score(node: ast.AST) -> bool:
    """Return whether a node calls the rubric, or is it, but where it is set."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in _SCORING
    return isinstance(node, ast.Attribute) and node.attr == "rubric" and not isinstance(node.ctx, ast.Store)


def _reads_reward(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _REWARDS and not isinstance(node.ctx, ast.Store)


def _imports_rubrics_alone(node: ast.AST, stems: Mapping[str, frozenset[str]]) -> bool:
    """Return whether an import of a file of rubrics, where it is one, is of rubrics alone, under their own names."""
    if isinstance(node, ast.Import):
        return not any(each.name.rpartition(".")[2] in stems for each in node.names)
    if not isinstance(node, ast.ImportFrom):
        return True
    rubrics = stems.get((node.module or "").rpartition(".")[2])
    if rubrics is None:
        return not any(each.name in stems for each in node.names)
    return all(each.name in rubrics and each.asname is None for each in node.names)
