"""Checks of an environment's code, by reading its syntax trees."""

import ast
import re
from collections.abc import Iterator

from openenv.auto.manifest import Manifest
from openenv.validation.findings import Check, Finding, fail, warn
from openenv.validation.names import OUR_PACKAGES, Definition, External, Names
from openenv.validation.source import Source

# Bases of the classes of each manifest's key, the usual one first.
BASES = {
    "action": ("Action", "BaseModel", "RootModel", "CallToolAction", "ListToolsAction"),
    "observation": ("Observation", "BaseModel", "CallToolObservation", "ListToolsObservation"),
    "environment": ("Environment", "MCPEnvironment"),
    "client": ("EnvClient", "TypedEnvClient", "ToolClient", "GenericEnvClient", "MCPToolClient", "MCPClientBase"),
}
NEUTRAL_PACKAGES = ("abc", "typing", "typing_extensions", "enum")
_MODELS = frozenset({"BaseModel", "Action", "Observation", "State"})
MODEL_MODULES = ("models", "client", "")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_syntax(source: Source) -> Iterator[Finding]:
    """Syntax of every Python file is valid."""
    for path, tree in source.trees.items():
        if isinstance(tree, SyntaxError):
            yield fail(f"{path}:{tree.lineno or 1}: {tree.msg}", "Correct the syntax.")


def check_classes(source: Source) -> Iterator[Finding]:
    """Classes that the manifest names are there, and of the right kind."""
    if not isinstance(source.manifest, Manifest):
        return
    names = Names(source)
    package = source.module if isinstance(source.module, str) else source.folder.name
    seen_here = source.manifest.seen_from(package.rpartition(".")[2])
    for key in ("app", "environment", "client", "player", "action", "observation"):
        reference: str | None = getattr(seen_here, key)
        if reference is not None:
            yield from _reference_findings(names, key, reference)


def _reference_findings(names: Names, key: str, reference: str) -> Iterator[Finding]:
    found = find_reference(names, reference)
    if found is None:
        yield fail(f"`{key}: {reference}` names something that is not there.", "Correct the key in openenv.yaml.")
    elif key in BASES and isinstance(found, Definition):
        yield from _kind_findings(names, key, reference, found)


def find_reference(names: Names, reference: str) -> Definition | External | None:
    """Find the object of a manifest's key: ``module:Name``, or a name in one of the usual modules."""
    module, colon, name = reference.rpartition(":")
    modules = (module,) if colon else MODEL_MODULES
    return next((found for each in modules if (found := names.find(each, name)) is not None), None)


def _kind_findings(names: Names, key: str, reference: str, found: Definition) -> Iterator[Finding]:
    if not isinstance(found.node, ast.ClassDef):
        # A client may be made by a call, as in MyEnv = client_for(MyEnvironment), and an action may be a union.
        if key != "client" and not (key == "action" and isinstance(found.node, ast.Assign | ast.AnnAssign)):
            yield fail(f"`{key}: {reference}` is no class.", "Name a class in openenv.yaml.")
        return
    bases = [each for each in names.ancestors(found) if isinstance(each, External)]
    if any(_extends(base, key) for base in bases):
        return
    expected = BASES[key][0]
    if all(base.dotted.partition(".")[0] in OUR_PACKAGES + NEUTRAL_PACKAGES for base in bases):
        yield fail(f"{found.path}: {found.node.name} does not extend {expected}.", f"Let it extend {expected}.")
    else:
        yield warn(
            f"{found.path}: can't see whether {found.node.name} is the {key}; a base comes from another package.",
            f"See that it extends {expected} in the end.",
        )


def _extends(base: Definition | External, key: str) -> bool:
    return isinstance(base, External) and base.is_ours and base.name in BASES[key]


def check_models(source: Source) -> Iterator[Finding]:
    """Fields have a type; those of an action and an observation have a description for agents and people."""
    yield from _unannotated(source)
    if not isinstance(source.manifest, Manifest):
        return
    names = Names(source)
    for found in _models(source, source.manifest, names):
        if isinstance(found, Definition) and isinstance(found.node, ast.ClassDef):
            for cls in names.ancestors(found):
                yield from _undescribed(cls)


def _unannotated(source: Source) -> Iterator[Finding]:
    """Find the fields of models for which pydantic refuses the class."""
    names = Names(source)
    for cls in _classes(source):
        assert isinstance(cls.node, ast.ClassDef)
        assigned = [node for node in cls.node.body if isinstance(node, ast.Assign) and _is_value(node.value)]
        if assigned and any(isinstance(each, External) and each.name in _MODELS for each in names.ancestors(cls)):
            for node in assigned:
                for target in node.targets:
                    if isinstance(target, ast.Name) and not target.id.startswith("_") and target.id != "model_config":
                        yield fail(
                            f"{cls.path}:{node.lineno}: {cls.node.name}.{target.id} has no type.",
                            f"Give it one, as in `{target.id}: int = ...`; ClassVar[...] if it is no field.",
                        )


def _is_value(node: ast.expr) -> bool:
    """Return whether an assignment in a class would be a field: a plain value, or a result of ``Field``."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] == "Field"
    return isinstance(node, ast.Constant | ast.List | ast.Dict | ast.Set | ast.Tuple | ast.UnaryOp | ast.BinOp)


def _classes(source: Source) -> list[Definition]:
    """Return the classes at the top of every module."""
    return [
        Definition(path, node)
        for path, tree in source.trees.items()
        if isinstance(tree, ast.Module)
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    ]


def _models(source: Source, manifest: Manifest, names: Names) -> list[Definition | External | None]:
    """Return the classes of actions and observations that the manifest names, else the environment's first two."""
    named = [reference for reference in (manifest.action, manifest.observation) if reference is not None]
    if named:
        return [find_reference(names, reference) for reference in named]
    parameters = [names.parameters(cls)[:2] for cls in environment_classes(source, names)]
    return [model for of_class in parameters for members in of_class for model in members]


def _undescribed(cls: Definition | External) -> Iterator[Finding]:
    if not isinstance(cls, Definition) or not isinstance(cls.node, ast.ClassDef):
        return
    documentation = ast.get_docstring(cls.node) or ""
    for field in cls.node.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name = field.target.id
        written = ast.unparse(field)
        hidden = name.startswith("_") or name == "model_config" or "ClassVar" in ast.unparse(field.annotation)
        described = "description=" in written or re.search(rf"\b{name}\b[^\n]*:", documentation)
        if not hidden and not described:
            yield warn(
                f"{cls.path}:{field.lineno}: {cls.node.name}.{name} has no description.",
                'Add one: Field(description="...").',
            )


def check_environment(source: Source) -> Iterator[Finding]:
    """Methods of the environment's class are those that a server calls, and take its arguments."""
    names = Names(source)
    classes = environment_classes(source, names)
    if not classes:
        yield fail("No class extends Environment.", "Write one in server/; `openenv init` shows how.")
    for cls in classes:
        methods = _methods(names, cls)
        for name in ("reset",) if _has_tools(methods) else ("reset", "step", "state"):
            if not _has_method(names, cls, methods, name):
                yield fail(
                    f"{cls.path}: {_class_name(cls)} has no {name}.", f"Define {name}; Environment has its form."
                )
        if "state" in methods and not methods["state"].decorator_list:
            yield warn(f"{cls.path}: {_class_name(cls)}.state is no property.", "Put @property above it.")
        reset = methods.get("reset_async") or methods.get("reset")
        yield from _reset_findings(cls, reset, has_tasks=_has_task_set(names, cls))
        yield from _step_findings(cls, methods.get("step_async") or methods.get("step"))


def environment_classes(source: Source, names: Names) -> list[Definition]:
    """Return the environment's class if the manifest names it, else every class that extends ``Environment``."""
    if isinstance(source.manifest, Manifest) and source.manifest.environment is not None:
        found = find_reference(names, source.manifest.environment)
        return [found] if isinstance(found, Definition) and isinstance(found.node, ast.ClassDef) else []
    return [cls for cls in _classes(source) if any(_extends(base, "environment") for base in names.ancestors(cls))]


def _methods(names: Names, cls: Definition) -> dict[str, Function]:
    """Return the methods of a class with those that it inherits within the package."""
    methods: dict[str, Function] = {}
    for each in names.ancestors(cls):
        if isinstance(each, Definition) and isinstance(each.node, ast.ClassDef):
            for node in each.node.body:
                if isinstance(node, Function):
                    methods.setdefault(node.name, node)
    return methods


def reset_method(source: Source) -> Function | None:
    """Return the method by which the environment is reset, as far as it is in the folder."""
    names = Names(source)
    for cls in environment_classes(source, names):
        methods = _methods(names, cls)
        found = methods.get("reset_async") or methods.get("reset")
        if found is not None:
            return found
    return None


def passes_on(method: Function, parameter: str) -> bool:
    """Return whether a method calls something of its own with a parameter."""
    calls = (node for node in ast.walk(method) if isinstance(node, ast.Call))
    return any(
        isinstance(given, ast.Name) and given.id == parameter
        for call in calls
        if not ast.unparse(call.func).startswith("super()")
        for given in (*call.args, *(each.value for each in call.keywords))
    )


def offers_only_tools(source: Source) -> bool:
    """Return whether agents act by tools alone, for which every package has a client already."""
    names = Names(source)
    classes = environment_classes(source, names)
    return bool(classes) and all(_is_of_tools_only(names, cls) for cls in classes)


def _is_of_tools_only(names: Names, cls: Definition) -> bool:
    methods = _methods(names, cls)
    return _has_tools(methods) and methods.keys().isdisjoint({"step", "step_async"})


def _has_tools(methods: dict[str, Function]) -> bool:
    """Return whether a class has tools, which come with a step and a state."""
    return "task_tools" in methods or any(_is_tool(method) for method in methods.values())


def _is_tool(method: Function) -> bool:
    plain = (node.func if isinstance(node, ast.Call) else node for node in method.decorator_list)
    return any(ast.unparse(node).rpartition(".")[2] == "tool" for node in plain)


def _has_method(names: Names, cls: Definition, methods: dict[str, Function], name: str) -> bool:
    if name in methods or f"{name}_async" in methods:
        return True
    externals = [each for each in names.ancestors(cls) if isinstance(each, External)]
    # A base that can't be seen may have it; of OpenEnv's, only the tool-style one has a step.
    unseen = any(each.dotted.partition(".")[0] not in OUR_PACKAGES + NEUTRAL_PACKAGES for each in externals)
    return unseen or (name == "step" and any(each.name == "MCPEnvironment" for each in externals))


def _has_task_set(names: Names, cls: Definition) -> bool:
    """Return whether a class has ``tasks``, whose columns are passed to ``reset``."""
    nodes = (each.node for each in names.ancestors(cls) if isinstance(each, Definition))
    statements = (statement for node in nodes if isinstance(node, ast.ClassDef) for statement in node.body)
    return any(
        isinstance(target, ast.Name) and target.id == "tasks"
        for statement in statements
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    )


def _reset_findings(cls: Definition, reset: Function | None, *, has_tasks: bool) -> Iterator[Finding]:
    if reset is None:
        return
    required = _required(reset)[1:]
    if required and not has_tasks:
        yield fail(
            f"{cls.path}:{reset.lineno}: reset needs {', '.join(required)}, but may be called without arguments.",
            "Give each a default.",
        )
    if "seed" not in accepted(reset) and reset.args.kwarg is None and not has_tasks:
        yield warn(
            f"{cls.path}:{reset.lineno}: reset takes no seed, so that no episode can be repeated.",
            "Add seed: int | None = None, and draw everything random from random.Random(seed).",
        )


def _step_findings(cls: Definition, step: Function | None) -> Iterator[Finding]:
    if step is None:
        return
    required = _required(step)[1:]
    takes_action = len(accepted(step)) > 1 or step.args.vararg is not None
    if len(required) > 1 or not takes_action:
        yield fail(
            f"{cls.path}:{step.lineno}: step takes ({', '.join(required)}); the server passes the action and, "
            "if it is accepted, timeout_s.",
            "Let it take the action, and give anything else a default.",
        )


def accepted(function: Function) -> list[str]:
    """Return the names of a function's parameters."""
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _required(function: Function) -> list[str]:
    arguments = function.args
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    by_name = [
        each.arg for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    return positional[: len(positional) - len(arguments.defaults)] + by_name


def _class_name(cls: Definition) -> str:
    assert isinstance(cls.node, ast.ClassDef)
    return cls.node.name


def check_concurrency(source: Source) -> Iterator[Finding]:
    """Declaration of the class whether one server may hold many sessions, as training needs."""
    names = Names(source)
    limit = _literal_limit(source)
    for cls in environment_classes(source, names):
        declared = _concurrency_flag(names, cls)
        if limit is not None and limit > 1 and declared is not True:
            yield fail(
                f"The server is for {limit} sessions, but {_class_name(cls)} does not declare that it supports them.",
                "Set SUPPORTS_CONCURRENT_SESSIONS = True if instances share nothing, else max_concurrent_envs=1.",
            )
        elif declared is None:
            yield warn(
                f"{cls.path}: {_class_name(cls)} does not set SUPPORTS_CONCURRENT_SESSIONS.",
                "Set it to True if instances share nothing; a server then holds many sessions, as training needs.",
            )


def _concurrency_flag(names: Names, cls: Definition) -> bool | None:
    for each in names.ancestors(cls):
        if not isinstance(each, Definition) or not isinstance(each.node, ast.ClassDef):
            continue
        for node in each.node.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Constant):
                continue
            if ast.unparse(node).startswith("SUPPORTS_CONCURRENT_SESSIONS"):
                return bool(node.value.value)
    return None


def _literal_limit(source: Source) -> int | None:
    """Return the number of sessions of the server's module, where it is written as a number."""
    tree = source.trees.get("server/app.py")
    for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
        if isinstance(node, ast.keyword) and node.arg == "max_concurrent_envs" and isinstance(node.value, ast.Constant):
            return node.value.value if isinstance(node.value.value, int) else None
    return None


def check_server(source: Source) -> Iterator[Finding]:
    """Module of the server can be started by hand, and has an option for its limit."""
    tree = source.trees.get("server/app.py")
    if not isinstance(tree, ast.Module):
        return
    if not any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
        yield warn("server/app.py has no main().", "Add one that serves; the script `server` calls it.")
    if _has_limit(tree) and "MAX_CONCURRENT_ENVS" not in source.texts["server/app.py"]:
        yield warn(
            "server/app.py sets max_concurrent_envs, which wins over the variable MAX_CONCURRENT_ENVS.",
            "Remove it, and set DEFAULT_MAX_SESSIONS in the environment's class, for --max-sessions to work.",
        )


def _has_limit(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.keyword) and node.arg == "max_concurrent_envs" for node in ast.walk(tree))


CODE_CHECKS = (
    Check("static.syntax", "every Python file parses", check_syntax),
    Check("static.classes", "the classes that openenv.yaml names are there", check_classes),
    Check("static.models", "every field of actions and observations is described", check_models),
    Check("static.environment", "the environment has the methods that a server calls", check_environment),
    Check("static.concurrency", "it declares whether one server may hold many sessions", check_concurrency),
    Check("static.server", "server/app.py can be started, and its limit set", check_server, "static.server"),
)
