"""Checks of the files around an environment's code: manifest, README, packaging, image, secrets."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from openenv.auto.dataset.opening import open_dataset
from openenv.auto.dataset.reference import DatasetRef
from openenv.auto.discovery import ENTRY_POINT_GROUP
from openenv.auto.manifest import MANIFEST_FILE, Manifest, keys_of_other_tools
from openenv.core.documents import DocumentError, parse_yaml, read_toml, read_yaml
from openenv.core.exceptions import ConfigurationError
from openenv.validation.code_checks import offers_only_tools
from openenv.validation.findings import Check, Finding, fail, warn
from openenv.validation.graders.static.manifest import BOUNDS_REMEDIATION, bound_faults
from openenv.validation.manifest import ManifestError
from openenv.validation.parsers.openenv_yaml import BLOCK, KEYS, POLICY, SCHEMA_REMEDIATION, OpenEnvYamlParser
from openenv.validation.policy import OWN_POLICY, load_policy
from openenv.validation.source import Source

REQUIRED_FILES = ("__init__.py", "server/__init__.py", "server/app.py")
DOCKERFILES = ("server/Dockerfile", "Dockerfile")
FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n(.*)", re.DOTALL)
FRONT_MATTER_KEYS = ("title", "sdk", "app_port")

SECRETS = {
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "an OpenAI or Anthropic key": r"\bsk-[A-Za-z0-9_-]{24,}",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "an AWS key": r"\bAKIA[0-9A-Z]{16}\b",
    "a Google key": r"\bAIza[0-9A-Za-z_-]{35}",
    "a Slack token": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}
# Not /home/user: no person's, but the user of images for Hugging Face Spaces and of cloud services' sandboxes.
HOME_PATH = re.compile(
    r"(?<![\w.])(?:/home/(?!user(?![\w.-]))[\w.-]+|/Users/[\w.-]+|/root|[A-Za-z]:\\+Users\\+\w+)(?=[/\\\"'\s])"
)
# Keys of other tools: of the validation that the public package describes, and of catalogs.
OTHER_KEYS = ("validation", "discovery", "tags", "license", "author", "authors", "homepage", "repository")
# Descriptions in the files of `openenv init`, until an author writes others.
SCAFFOLD_TEXTS = (
    "Walk to a goal on a field of five by five",
    "Replace this with what your environment is about",
    "Rewards an agent that walks to a goal in time. Replace it with your own.",
    "Where to go by one field",
)
CODE_SUFFIXES = (".py", ".yaml", ".yml", ".toml", ".txt", ".sh")


def check_manifest(source: Source) -> Iterator[Finding]:
    """Manifest can be read, and its name is the package's."""
    if isinstance(source.manifest, ConfigurationError):
        for line in str(source.manifest).splitlines():
            yield fail(line, "Correct the key; `openenv init` shows a manifest with every key.")
        return
    if isinstance(source.module, ConfigurationError):
        yield fail(str(source.module), "Give the folder the package's name.")
    for key in keys_of_other_tools(yaml_of(source)):
        yield warn(
            f"`{key}` has a value of another shape: it must be {Manifest.model_fields[key].description}.",
            "Correct it, or leave it where another tool needs it; OpenEnv ignores it.",
        )
    if not source.manifest.description:
        yield warn("`description` is missing.", "Describe the environment in one sentence; `openenv list` shows it.")
    yield from _unknown_keys(source.manifest)
    yield from _missing_task_sets(source.manifest, source.folder)
    if source.manifest.version == "0.0.0":
        yield warn("`version` is missing.", "Add a version, and raise it with every change of what an agent meets.")
    yield from _declarations(source)


def _declarations(source: Source) -> Iterator[Finding]:
    """Find faults in the declarations for checks, where there are any."""
    declared = (source.manifest.model_extra or {}).get(BLOCK) if isinstance(source.manifest, Manifest) else None
    if declared is None:
        return
    try:
        manifest = OpenEnvYamlParser().parse(source.folder)
    except ManifestError as error:
        for line in error.errors:
            yield fail(f"`{BLOCK}`: {line}", error.remediation or SCHEMA_REMEDIATION)
        return
    for line in bound_faults(manifest, load_policy(OWN_POLICY).bounds):
        yield fail(f"`{BLOCK}`: {line}", BOUNDS_REMEDIATION)
    yield from _unknown(declared, (*KEYS, POLICY), f"`{BLOCK}` of openenv.yaml")


def yaml_of(source: Source) -> dict[Any, Any]:
    """Return the content of a manifest that was read."""
    content = read_yaml(source.folder / MANIFEST_FILE)
    assert isinstance(content, dict)
    return content


def _unknown_keys(manifest: Manifest) -> Iterator[Finding]:
    return _unknown(manifest.model_extra or {}, (*Manifest.model_fields, *OTHER_KEYS), MANIFEST_FILE)


def _unknown(keys: Iterable[Any], known: Sequence[str], where: str) -> Iterator[Finding]:
    for key in keys:
        if key in known:
            continue
        close = difflib.get_close_matches(str(key), known, n=1)
        yield warn(
            f"`{key}` is no key of {where}" + (f"; did you mean `{close[0]}`?" if close else "."),
            "Correct it or leave it out; no command reads it.",
        )


def _missing_task_sets(manifest: Manifest, folder: Path) -> Iterator[Finding]:
    """Find task sets that are no reference, or no dataset beside the manifest; the Hub is not queried."""
    for name, text in manifest.task_sets_from(folder).items():
        try:
            if not DatasetRef.parse(text).is_local:
                continue
            open_dataset(text)
        except ConfigurationError as error:
            yield fail(f"`task_sets`: {name}: {error}", "Correct the reference; a folder is one beside openenv.yaml.")


def check_files(source: Source) -> Iterator[Finding]:
    """Files of the package are there; those that later checks read, these report themselves."""
    for path in REQUIRED_FILES if offers_only_tools(source) else (*REQUIRED_FILES, "client.py"):
        if not (source.folder / path).is_file():
            yield _missing(path)


def _missing(path: str) -> Finding:
    return fail(f"{path} is missing.", f"Add {path}; `openenv init` shows one.")


def check_readme(source: Source) -> Iterator[Finding]:
    """README describes the environment for people and the Hub."""
    text = source.texts.get("README.md")
    if text is None:
        yield _missing("README.md")
        return
    if source.folder != source.top_folder:  # a subpackage is no Space
        return
    matter = FRONT_MATTER.match(text)
    if matter is None:
        yield warn("README.md has no front matter.", "Begin it with the block that `openenv init` writes, for a Space.")
        return
    keys = _front_matter(matter[1])
    missing = [key for key in FRONT_MATTER_KEYS if key not in keys]
    if missing:
        yield warn(f"README.md's front matter lacks {', '.join(missing)}.", "A Space needs these keys; add them.")
    if isinstance(source.manifest, Manifest) and keys.get("app_port", source.manifest.port) != source.manifest.port:
        yield fail(
            f"README.md has app_port {keys['app_port']}, openenv.yaml has port {source.manifest.port}.",
            "Make them the same.",
        )
    if len(matter[2].split()) < 20:
        yield warn("README.md has hardly any text.", "Describe the task, the action, the observation and the reward.")


def check_packaging(source: Source) -> Iterator[Finding]:
    """Package installs, and is found by its name once it is."""
    file = source.top_folder / "pyproject.toml"  # a subpackage is published with the package around it
    if not file.is_file():
        yield _missing("pyproject.toml")
        return
    if isinstance(source.module, ConfigurationError):
        return
    # That it is valid TOML is known: the package's import path was read from it.
    project: dict[str, Any] = read_toml(file).get("project", {})
    if not project.get("name"):
        yield fail("pyproject.toml has no project.name.", 'Add one, such as name = "openenv-my_env".')
    if not any(re.match(r"openenv(-core)?\b", str(each)) for each in project.get("dependencies", [])):
        yield fail("pyproject.toml does not depend on openenv-core.", "Add it to project.dependencies.")
    entries = project.get("entry-points", {}).get(ENTRY_POINT_GROUP, {})
    if source.module not in entries.values():
        yield warn(
            f'No entry point in the group "{ENTRY_POINT_GROUP}" names {source.module}.',
            f'Add [project.entry-points."{ENTRY_POINT_GROUP}"] with a line such as my = "{source.module}", '
            "so that the installed environment is found by name.",
        )
    if "server" not in project.get("scripts", {}):
        yield warn(
            "There is no script called server.", f'Add server = "{source.module}.server.app:main" to [project.scripts].'
        )


def check_image(source: Source) -> Iterator[Finding]:
    """Dockerfile serves on the manifest's port, off loopback."""
    path = next((path for path in DOCKERFILES if path in source.texts), None)
    if path is None:
        if not any((source.top_folder / path).is_file() for path in DOCKERFILES):
            yield fail("There is neither server/Dockerfile nor Dockerfile.", "Add one; `openenv init` shows one.")
        return
    text = source.texts[path]
    if not re.search(r"(?mi)^FROM\s", text):
        yield fail(f"{path} has no FROM line.", "Name a base image.")
    if not re.search(r"(?mi)^(CMD|ENTRYPOINT)\b", text):
        yield fail(f"{path} has no CMD.", "Write how the server is started.")
    if not re.search(r"(?mi)^HEALTHCHECK\b", text):
        yield warn(f"{path} has no HEALTHCHECK.", "Add one that requests /health.")
    if isinstance(source.manifest, Manifest) and str(source.manifest.port) not in text:
        yield warn(
            f"{path} does not mention port {source.manifest.port}.", "Serve on the port that openenv.yaml names."
        )


def check_secrets(source: Source) -> Iterator[Finding]:
    """Tokens and keys are not in the files."""
    for path, text in source.texts.items():
        for what, pattern in SECRETS.items():
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                yield fail(
                    f"{path}:{line} looks like {what}.",
                    "Revoke it, take it out of the files and of their history, and pass it as an environment variable.",
                )


def check_paths(source: Source) -> Iterator[Finding]:
    """Folders that only this machine has are named in no file."""
    for path, text in source.texts.items():
        if not path.endswith(CODE_SUFFIXES):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            match = HOME_PATH.search(line)
            if match is not None:
                yield warn(f"{path}:{number} names {match[0]}.", "Use a path relative to the file, or a setting.")


def check_leftovers(source: Source) -> Iterator[Finding]:
    """Texts of the scaffold do not stand beside an author's."""
    whole = "\n".join(text for path, text in source.texts.items() if not path.startswith("tests/"))
    if all(text in whole for text in SCAFFOLD_TEXTS):  # nothing was changed yet
        return
    for path, text in source.texts.items():
        for text_of_scaffold in SCAFFOLD_TEXTS:
            at = text.find(text_of_scaffold)
            if at >= 0:
                line = text.count("\n", 0, at) + 1
                yield warn(
                    f'{path}:{line} still has the text of `openenv init`: "{text_of_scaffold}".',
                    "Describe your environment; people and models read it.",
                )


def _front_matter(text: str) -> dict[str, Any]:
    try:
        keys = parse_yaml(text)
    except DocumentError:
        return {}
    return keys if isinstance(keys, dict) else {}


FILE_CHECKS = (
    Check("static.manifest", "openenv.yaml can be read", check_manifest),
    Check("static.files", "the files of a published environment are there", check_files),
    Check("static.readme", "README.md describes this to people and the Hub", check_readme),
    Check("static.packaging", "pyproject.toml installs it, and lets it be found by name", check_packaging),
    Check("static.image", "the Dockerfile serves it", check_image),
    Check("static.secrets", "no token or key is in the files", check_secrets),
    Check("static.leftovers", "no text of the scaffold stands beside one's own", check_leftovers, "static.leftovers"),
    Check("static.paths", "no path of one machine is in the files", check_paths, "static.paths"),
)
