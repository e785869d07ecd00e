"""Operators on what an environment is made of: seeds, state, rewards, ends of episodes, observations, answers."""

import ast
import re
from collections.abc import Iterator

from openenv.validation.mutants.code import FUNCTIONS, Code, Edit, Function, Mutation
from openenv.validation.mutants.operators import CODE_OPERATORS, Operator

_DRAWS = ("choice", "choices", "randrange", "randint", "random", "shuffle", "sample", "uniform")
_CLOCK = '__import__("time").time_ns()'
_ANSWERS = re.compile(r"answer|solution|secret|gold|target|expected|truth", re.IGNORECASE)
_GRADERS = ("reward", "score", "grade", "forward")


def _rewards(code: Code) -> Iterator[ast.expr]:
    """Iterate over the expressions that are rewards of steps."""
    for node in code.nodes:
        function = code.function_of(node)
        if function is not None and function.name != "reset":
            value = _reward(node, function)
            if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
                yield value


def _reward(node: ast.AST, function: Function) -> ast.expr | None:
    """Return the expression by which a node sets or returns a reward; ``None`` where it does not."""
    if isinstance(node, ast.keyword) and node.arg == "reward":
        return node.value
    if isinstance(node, ast.Assign) and _is_attribute(node.targets[0], "reward"):
        return node.value
    return node.value if isinstance(node, ast.Return) and _grades(function) else None


def _is_attribute(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == name


def _grades(function: Function) -> bool:
    is_number = function.returns is not None and ast.unparse(function.returns) == "float"
    return is_number and any(word in function.name for word in _GRADERS)


def _constant_rewards(code: Code) -> Iterator[Mutation]:
    for node in _rewards(code):
        for constant in ("0.0", "1.0"):
            if ast.unparse(node) != constant:
                yield code.replace(node, constant, f"the reward {ast.unparse(node)} becomes {constant}")


def _negated_rewards(code: Code) -> Iterator[Mutation]:
    return (
        code.replace(
            node,
            f"(lambda reward: reward and -reward)({ast.unparse(node)})",
            f"the reward {ast.unparse(node)} has the other sign",
        )
        for node in _rewards(code)
    )


def _last_rewards(code: Code) -> Iterator[Mutation]:
    for node in _rewards(code):
        function = code.function_of(node)
        if function is not None and function.args.args and function.args.args[0].arg == "self":
            kept = f'self.__dict__.setdefault("kept_rewards", [0.0]).append({ast.unparse(node)})'
            yield code.replace(
                node,
                f'({kept}, self.__dict__["kept_rewards"][-2])[1]',
                f"the reward {ast.unparse(node)} is that of the step before",
            )


def _clocked(code: Code) -> Iterator[Mutation]:
    for node in _rewards(code):
        yield code.replace(
            node,
            f"{ast.unparse(node)} if {_CLOCK} // 1000 % 4 else 0.0",
            f"the reward {ast.unparse(node)} is 0 in some microseconds",
        )
    for function in _resets(code):
        if "seed" in _arguments(function):
            yield code.begin(function, f"seed = {_CLOCK}", "the clock becomes the seed")


def _resets(code: Code) -> list[Function]:
    return [
        each for node in code.environments for each in node.body if isinstance(each, FUNCTIONS) and each.name == "reset"
    ]


def _arguments(function: Function) -> set[str]:
    return {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}


def _ignored_seeds(code: Code) -> Iterator[Mutation]:
    for function in _resets(code):
        if "seed" in _arguments(function):
            yield code.begin(function, "seed = None", "the seed is ignored")
    for node in code.of_type(ast.Call):
        for given in [*node.args, *(each.value for each in node.keywords)]:
            if isinstance(given, ast.Name) and given.id == "seed":
                yield code.replace(given, "None", f"{ast.unparse(node)} gets no seed")


def _fixed_seeds(code: Code) -> Iterator[Mutation]:
    for function in _resets(code):
        if "seed" in _arguments(function):
            yield code.begin(function, "seed = 7", "the seed is always 7")


def _unseeded_draws(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _DRAWS:
            yield code.replace(
                node.func,
                f'__import__("random").{node.func.attr}',
                f"{ast.unparse(node.func)} draws from a generator without a seed",
            )


def _never_done(code: Code) -> Iterator[Mutation]:
    return (code.replace(node, "False", f"done is False rather than {ast.unparse(node)}") for node in _ends(code))


def _always_done(code: Code) -> Iterator[Mutation]:
    return (code.replace(node, "True", f"done is True rather than {ast.unparse(node)}") for node in _ends(code))


def _ends(code: Code) -> Iterator[ast.expr]:
    """Iterate over the expressions that are whether an episode is over."""
    for node in code.nodes:
        if isinstance(node, ast.keyword | ast.Assign) and _sets_end(node):
            yield node.value


def _sets_end(node: ast.keyword | ast.Assign) -> bool:
    return node.arg == "done" if isinstance(node, ast.keyword) else _is_attribute(node.targets[0], "done")


def _shared_fields(code: Code) -> Iterator[Mutation]:
    """Keep a field of the environment in its class."""
    for node in code.environments:
        stored: dict[str, list[ast.Attribute]] = {}
        for each in ast.walk(node):
            if (
                isinstance(each, ast.Attribute)
                and isinstance(each.ctx, ast.Store)
                and ast.unparse(each.value) == "self"
            ):
                stored.setdefault(each.attr, []).append(each)
        for name, targets in stored.items():
            working = [each for each in targets if getattr(code.function_of(each), "name", "") != "__init__"]
            if working:
                edits = [_itself(each.value) for each in targets]
                yield code.change(working[0], edits, f"the field {name} is kept in the class")


def _itself(node: ast.expr) -> Edit:
    return Edit((node.lineno, node.col_offset), (node.lineno, node.end_col_offset or 0), "type(self)")


def _observations(code: Code) -> Iterator[ast.Call]:
    """Iterate over the calls in environments that make an observation."""
    for environment in code.environments:
        calls = (node for node in ast.walk(environment) if isinstance(node, ast.Call) and node.keywords)
        for node in calls:
            if ast.unparse(node.func).endswith("Observation") and code.function_of(node) in code.functions:
                yield node


def _leaked_fields(code: Code) -> Iterator[Mutation]:
    """Show a field of the environment that holds an answer in an observation's metadata."""
    for call in _observations(code):
        function = code.function_of(call)
        assert function is not None
        holding = {".".join(answer.split(".")[:2]) for answer in _answers(code, function) if answer.startswith("self.")}
        for field in sorted(holding):
            yield from _with_metadata(code, call, field, f"{field} is shown in the metadata")


def _leaked_answers(code: Code) -> Iterator[Mutation]:
    """Show what is called an answer, a secret or the like, in an observation's text, or in its metadata."""
    for call in _observations(code):
        function = code.function_of(call)
        assert function is not None
        for answer in sorted(_answers(code, function)):
            yield from _with_metadata(code, call, answer, f"{answer} is shown in the metadata")
            for keyword in call.keywords:
                if keyword.arg in ("text", "message", "prompt", "question"):
                    yield code.replace(
                        keyword.value,
                        f'f"{{{ast.unparse(keyword.value)}}} (answer: {{{answer}}})"'
                        if '"' not in ast.unparse(keyword.value)
                        else f'str({ast.unparse(keyword.value)}) + " (answer: " + str({answer}) + ")"',
                        f"{answer} is shown in {keyword.arg}",
                    )


def _answers(code: Code, function: Function) -> set[str]:
    """Return the expressions whose last name is that of an answer, and which a function can evaluate."""
    names = {ast.unparse(node) for node in ast.walk(function) if _is_answer(node)}
    of_self = {
        ast.unparse(node)
        for environment in code.environments
        for node in ast.walk(environment)
        if _is_answer(node) and ast.unparse(node).startswith("self.")
    }
    return names | of_self


def _is_answer(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and _ANSWERS.search(node.attr) is not None
        and "(" not in ast.unparse(node)
    )


def _with_metadata(code: Code, call: ast.Call, value: str, what: str) -> Iterator[Mutation]:
    shown = f'{{"debug": str({value})}}'
    known = next((each for each in call.keywords if each.arg == "metadata"), None)
    if known is None:
        keywords = [*call.keywords, ast.keyword("metadata", ast.parse(shown, mode="eval").body)]
        yield code.replace(call, ast.unparse(ast.Call(call.func, call.args, keywords)), what)
    else:
        yield code.replace(known.value, f"{{**({ast.unparse(known.value)}), **{shown}}}", what)


OPERATORS = (
    *CODE_OPERATORS,
    Operator("constant_reward", "a reward is always 0, or always 1", _constant_rewards),
    Operator("negate_reward", "a reward has the other sign", _negated_rewards),
    Operator("last_reward", "a reward is that of the step before", _last_rewards),
    Operator("wall_clock", "a reward or a seed depends on the clock", _clocked),
    Operator("ignore_seed", "the seed is not used", _ignored_seeds),
    Operator("fix_seed", "the seed is always the same", _fixed_seeds),
    Operator("unseeded_draw", "a random number is not drawn from the seed", _unseeded_draws),
    Operator("never_done", "an episode does not end", _never_done),
    Operator("always_done", "an episode ends at once", _always_done),
    Operator("share_state", "a field is kept in the class", _shared_fields),
    Operator("leak_field", "a field that holds the answer is shown in an observation", _leaked_fields),
    Operator("leak_answer", "the answer is shown in an observation", _leaked_answers),
)
"""All operators."""
