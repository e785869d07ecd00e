"""Operators on any code: conditions, comparisons, numbers, updates of fields, errors."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from openenv.validation.mutants.code import Code, Mutation, in_a_line

_INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
_FORMS = ("strip", "lower", "upper", "casefold", "rstrip", "lstrip")
_QUANTIFIERS = {"all": "any", "any": "all", "min": "max", "max": "min"}
_COPIES = ("list", "dict", "set", "deepcopy")


@dataclass(frozen=True)
class Operator:
    """Kind of fault that is planted.

    Attributes:
        name: Its name.
        fault: The fault, for people.
        find: Iterates over its mutations of a file.
    """

    name: str
    fault: str
    find: Callable[[Code], Iterator[Mutation]]


def _dropped_checks(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.If):
        if not node.orelse and isinstance(node.body[-1], ast.Raise):
            yield code.replace(node, "pass", f"dropped: if {in_a_line(node.test)}: {in_a_line(node.body[-1])}")


def _compared(code: Code, becomes: dict[type[ast.cmpop], type[ast.cmpop]]) -> Iterator[Mutation]:
    for node in code.of_type(ast.Compare):
        if len(node.ops) == 1 and type(node.ops[0]) in becomes:
            other = becomes[type(node.ops[0])]()
            yield code.replace(node, ast.unparse(ast.Compare(node.left, [other], node.comparators)))


def _flipped_comparisons(code: Code) -> Iterator[Mutation]:
    return _compared(code, _INVERSE)


def _shifted_bounds(code: Code) -> Iterator[Mutation]:
    return _compared(code, _BOUNDARY)


def _off_by_one(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.Constant):
        if type(node.value) is int and _is_rule(code, node):
            yield code.replace(node, str(node.value + 1), f"{node.value} becomes {node.value + 1}")


def _is_rule(code: Code, node: ast.expr) -> bool:
    """Return whether a number is one of the environment's rules: in a function, or a constant of the file."""
    return code.function_of(node) is not None or (
        isinstance(statement := code.statement_of(node), ast.Assign) and statement in code.tree.body
    )


def _swapped_arithmetic(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.BinOp):
        if type(node.op) in _ARITHMETIC and _is_rule(code, node) and _may_be_numbers(node):
            other = _ARITHMETIC[type(node.op)]()
            yield code.replace(node, ast.unparse(ast.BinOp(node.left, other, node.right)))


def _may_be_numbers(node: ast.BinOp) -> bool:
    texts = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    sides = (node.left, node.right)
    return not any(isinstance(side, texts) or _is_text(side) for side in sides)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _swapped_logic(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield code.replace(node, ast.unparse(ast.BoolOp(other, node.values)))


def _negated_conditions(code: Code) -> Iterator[Mutation]:
    for node in code.nodes:
        if isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare):
            yield code.replace(node.test, f"not ({ast.unparse(node.test)})")


def _dropped_updates(code: Code) -> Iterator[Mutation]:
    yield from _updates(code, is_reset=False)


def _kept_fields(code: Code) -> Iterator[Mutation]:
    yield from _updates(code, is_reset=True)


def _updates(code: Code, *, is_reset: bool) -> Iterator[Mutation]:
    """Drop assignments to fields, in ``reset`` or elsewhere than there and in constructors."""
    for node in code.nodes:
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        function = code.function_of(node)
        if function is None or function.name == "__init__" or (function.name == "reset") is not is_reset:
            continue
        if all(_is_field(target) for target in targets):
            yield code.replace(node, "pass", f"dropped: {in_a_line(node)}")


def _is_field(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(map(_is_field, target.elts))
    return isinstance(target, ast.Attribute) or (
        isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute)
    )


def _dropped_calls(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.Expr):
        if isinstance(node.value, ast.Call) and not _is_constructor(node.value):
            yield code.replace(node, "pass", f"dropped: {in_a_line(node)}")


def _is_constructor(call: ast.Call) -> bool:
    return ast.unparse(call.func) == "super().__init__"


def _swallowed_errors(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.ExceptHandler):
        if any(isinstance(each, ast.Raise) for each in node.body):
            last = node.body[-1]
            yield code.replace(last, "pass", f"swallowed: {in_a_line(last)}")
    for function in code.functions:
        returns = None if function.returns is None else ast.unparse(function.returns)
        if returns == "float" and not isinstance(function, ast.AsyncFunctionDef):
            whole = ast.unparse(ast.Module(function.body, []))
            body = ["try:", *(f"    {line}" for line in whole.splitlines()), "except Exception:", "    return 0.0"]
            yield code.rewrite(function, body, f"errors in {function.name} are swallowed, and give 0.0")


def _dropped_forms(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _FORMS:
            yield code.replace(node, ast.unparse(node.func.value))


def _swapped_quantifiers(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _QUANTIFIERS:
            yield code.replace(node.func, _QUANTIFIERS[node.func.id])


def _dropped_copies(code: Code) -> Iterator[Mutation]:
    for node in code.of_type(ast.Call):
        if node.keywords:
            continue
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args
        if is_method and isinstance(node.func, ast.Attribute):
            yield code.replace(node, ast.unparse(node.func.value))
        elif len(node.args) == 1 and _called(node) in _COPIES and isinstance(node.args[0], ast.Attribute):
            yield code.replace(node, ast.unparse(node.args[0]))


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _loosened_matches(code: Code) -> Iterator[Mutation]:
    """Take the equality of two values for the occurrence of one in the other, where a verdict is made."""
    for node in code.of_type(ast.Compare):
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
            continue
        function = code.function_of(node)
        returns = None if function is None or function.returns is None else ast.unparse(function.returns)
        if returns in ("bool", "float"):
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield code.replace(node, f"str({right}) in str({left})")


def _left_loops(code: Code) -> Iterator[Mutation]:
    for node in code.nodes:
        if isinstance(node, ast.Break):
            yield code.replace(node, "continue")
        elif isinstance(node, ast.Continue):
            yield code.replace(node, "break")


CODE_OPERATORS = (
    Operator("drop_check", "a check that raises is dropped", _dropped_checks),
    Operator("flip_comparison", "a comparison is its opposite", _flipped_comparisons),
    Operator("shift_bound", "a bound is or is not part of a range", _shifted_bounds),
    Operator("off_by_one", "a number is one more", _off_by_one),
    Operator("swap_arithmetic", "a sum is a difference, a product a sum", _swapped_arithmetic),
    Operator("swap_logic", "`and` is `or`", _swapped_logic),
    Operator("negate_condition", "a condition is its opposite", _negated_conditions),
    Operator("drop_update", "an update of a field is dropped", _dropped_updates),
    Operator("keep_over_reset", "a reset leaves a field as it was", _kept_fields),
    Operator("drop_call", "a call for its effect is dropped", _dropped_calls),
    Operator("swallow_error", "an error is swallowed, or is a reward of 0", _swallowed_errors),
    Operator("drop_normalisation", "a text is not stripped, or keeps its case", _dropped_forms),
    Operator("swap_quantifier", "`all` is `any`, `min` is `max`", _swapped_quantifiers),
    Operator("drop_copy", "a value is shared rather than copied", _dropped_copies),
    Operator("loosen_match", "a verdict accepts what contains the answer", _loosened_matches),
    Operator("leave_loop", "`break` is `continue`", _left_loops),
)
