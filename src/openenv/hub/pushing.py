"""Publication of a staged environment as a Space."""

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from openenv.core.exceptions import HubError
from openenv.core.wire.names import AUTH_NONE, AUTH_VARIABLE, TOKEN_VARIABLE
from openenv.hub.client import Hub, as_items
from openenv.hub.library import CommitInfo, CommitOperationAdd, CommitOperationDelete, RepoInfo, filter_repo_objects

OPEN = (AUTH_VARIABLE, AUTH_NONE)
"""Variable by which a server needs no token."""

_SPACE = "space"
_KEPT_BY_THE_HUB = ".gitattributes"


@dataclass(frozen=True)
class Push:
    """Folder to publish, and its repository.

    Attributes:
        staged: The folder that ``stage`` wrote.
        repo_id: ``OWNER/NAME`` of the Space.
        message: Message of the commit.
        private: Whether the Space is for its owner only. A private one stays so.
        hardware: Hardware that it runs on; that of the Hub's choice if ``None``.
        variables: Its environment variables, which every visitor can read.
        secrets: Variables that no visitor can read.
        create_pr: Whether to propose it to the Space's owner instead: files only, no settings.
        delete: Globs of the Space's files to delete, of those that the folder lacks.
    """

    staged: Path
    repo_id: str
    message: str = "Push an OpenEnv environment"
    private: bool = False
    hardware: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    create_pr: bool = False
    delete: tuple[str, ...] = ()

    def files(self) -> list[str]:
        """Paths of the published files, in order."""
        files = (path for path in self.staged.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.staged).as_posix() for path in files)


class Pushed(NamedTuple):
    """Result of a push.

    Attributes:
        page: Address of the Space's page.
        commit: Address of the commit.
        pull_request: Address of the pull request; ``None`` where none was requested.
        changed: Whether a file has changed.
        opened: Whether the Space was set to serve visitors without a token.
    """

    page: str
    commit: str
    pull_request: str | None
    changed: bool
    opened: bool


def push(what: Push, hub: Hub) -> Pushed:
    """Publish a staged environment. The Space is made if it is not there; all files are one commit.

    A server requires a token of peers from elsewhere, and visitors of a Space have none. So a Space with neither a
    secret ``OPENENV_TOKEN`` nor a variable ``OPENENV_AUTH`` gets ``OPENENV_AUTH=none``: every visitor that the Hub lets
    in may play.

    Args:
        what: Folder and repository.
        hub: The Hub.

    Raises:
        HubError: The Hub refuses, or can't be reached. The Space's files are then what they were before.
    """
    found = hub.find(what.repo_id)
    if found is None and what.create_pr:
        raise HubError(f"There is no Space {what.repo_id} to propose anything to; push without --create-pr first.")
    opened = False
    if found is None:
        opened = _create(what, hub)
    elif not what.create_pr:
        opened = _change_settings(what, found, hub)
    commit = _propose(what, hub) if what.create_pr else hub.request(_uploading(what), partial(_commit, what, hub))
    changed = found is None or commit.oid != found.sha
    return Pushed(hub.page_of(what.repo_id), commit.commit_url, commit.pr_url, changed, opened)


def calls_of(what: Push) -> Iterator[str]:
    """Iterate over the calls of ``push``, as a person reads them; no secret's value is among them.

    Yields:
        Lines such as ``POST /api/repos/create {...}``; a call that depends on an answer of the Hub is indented.
    """
    space = f"/api/spaces/{what.repo_id}"
    yield f"GET {space}"
    if not what.create_pr:
        yield "if there is no such Space:"
        yield f"  POST /api/repos/create {_json_of(_creation_of(what))}"
        yield "if there is:"
        yield from (f"  {line}" for line in _calls_for_settings(what, space))
    query = "?create_pr=1" if what.create_pr else ""
    if what.delete:
        yield f"GET {space}/tree/main?recursive=true"
    yield 'POST /api/validate-yaml {"repoType": "space"} with README.md'
    yield f"POST {space}/preupload/main{query} with the size and the first 512 bytes of each file"
    yield f"  each file that the Hub wants to have as a large one: to the storage that it names, for {what.repo_id}"
    yield f"POST {space}/commit/main{query} with {len(what.files())} files, less those that are there already"


def _calls_for_settings(what: Push, space: str) -> Iterator[str]:
    if what.private:
        yield f'PUT {space}/settings {{"visibility": "private"}} unless it is private'
    yield from (f'POST {space}/secrets {{"key": "{key}", "value": (hidden)}}' for key in what.secrets)
    yield f"GET {space}/variables"
    yield f"GET {space}/secrets (their names only)"
    yield from (
        f"POST {space}/variables {_json_of({'key': key, 'value': value})} unless it is so"
        for key, value in what.variables.items()
    )
    if _variables(what, what.variables, what.secrets) != what.variables:
        opening = _json_of({"key": OPEN[0], "value": OPEN[1]})
        yield f"POST {space}/variables {opening} unless it has that, or a secret {TOKEN_VARIABLE}"
    if what.hardware is not None:
        yield f"POST {space}/hardware {_json_of({'flavor': what.hardware})}"


def _create(what: Push, hub: Hub) -> bool:
    """Make the Space with all its settings: with hardware that costs, the Hub makes Spaces that it else would not."""
    variables = _variables(what, what.variables, what.secrets)
    call = partial(
        hub.api.create_repo,
        what.repo_id,
        repo_type=_SPACE,
        space_sdk="docker",
        private=what.private or None,  # an organization may have another default
        space_hardware=what.hardware,  # type: ignore[arg-type]  # the Hub has more than the library lists
        space_variables=as_items(variables),
        space_secrets=as_items(what.secrets),
        exist_ok=True,  # there was none: where the Hub knows it, an earlier attempt has made it
    )
    hub.request(f"create the Space {what.repo_id}", call)
    return variables != what.variables


def _change_settings(what: Push, found: RepoInfo, hub: Hub) -> bool:
    """Change a Space's settings to those of the push, before files arrive that build it again."""
    space, api = what.repo_id, hub.api
    if what.private and not found.private:
        call = partial(api.update_repo_settings, space, private=True, repo_type=_SPACE)
        hub.request(f"make the Space {space} private", call)
    for key, value in what.secrets.items():
        hub.request(f"set the secret {key} of {space}", partial(api.add_space_secret, space, key, value))
    there = hub.request(f"read the variables of {space}", partial(api.get_space_variables, space))
    known = {key: variable.value for key, variable in there.items()}
    variables = _variables(
        what, known, hub.request(f"list the secrets of {space}", partial(api.get_space_secrets, space))
    )
    for key, value in variables.items():
        if known.get(key) != value:  # setting a variable starts the Space again
            hub.request(f"set the variable {key} of {space}", partial(api.add_space_variable, space, key, value))
    if what.hardware is not None:
        hardware: Any = what.hardware
        hub.request(f"request {hardware} for {space}", partial(api.request_space_hardware, space, hardware))
    return variables != what.variables


def _variables(what: Push, known: Container[str], secrets: Container[str]) -> Mapping[str, str]:
    """Return the variables of the push, with the one that lets visitors in where none of them decides that."""
    is_decided = OPEN[0] in what.variables or OPEN[0] in known or TOKEN_VARIABLE in secrets
    return what.variables if is_decided else {**what.variables, OPEN[0]: OPEN[1]}


def _commit(what: Push, hub: Hub) -> CommitInfo:
    """Upload and commit. Done twice, the second finds every file there and commits nothing."""
    files = what.files()
    added = [CommitOperationAdd(path, str(what.staged / path)) for path in files]
    deleted = [CommitOperationDelete(path, is_folder=False) for path in _deleted(what, set(files), hub)]
    return hub.commit(what.repo_id, [*deleted, *added], message=what.message, create_pr=what.create_pr)


def _propose(what: Push, hub: Hub) -> CommitInfo:
    """Open a pull request; done twice, there would be two."""
    try:
        return hub.request(_uploading(what), partial(_commit, what, hub), repeatable=False)
    except HubError as error:
        if error.status is not None and error.status < 500:
            raise
        pull_requests = f"{hub.page_of(what.repo_id)}/discussions"
        text = f"{error} The pull request may be open all the same; see {pull_requests}"
        raise HubError(text, error.status) from error


def _uploading(what: Push) -> str:
    return f"upload to {what.repo_id}"


def _deleted(what: Push, files: set[str], hub: Hub) -> list[str]:
    """Return the Space's files to delete: those that match a glob and are not published again."""
    if not what.delete:
        return []
    there = hub.api.list_repo_files(what.repo_id, repo_type=_SPACE)
    matching = filter_repo_objects(there, allow_patterns=list(what.delete))
    return [path for path in matching if path not in files and path != _KEPT_BY_THE_HUB]


def _creation_of(what: Push) -> dict[str, Any]:
    """Return the request for a new repository, without secrets."""
    owner, _, name = what.repo_id.partition("/")
    settings = {
        "visibility": "private" if what.private else None,
        "hardware": what.hardware,
        "variables": dict(_variables(what, what.variables, what.secrets)),
        "secrets": dict.fromkeys(what.secrets, "(hidden)"),
    }
    given = {key: value for key, value in settings.items() if value}
    return {"organization": owner, "name": name, "type": _SPACE, "sdk": "docker", **given}


def _json_of(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)
