"""A Hub on this machine: the few endpoints of it that pushing, pulling and forking use."""

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.support.services.json_server import Answer as Answer
from tests.support.services.json_server import Fault as Fault
from tests.support.services.json_server import JsonServer, serving
from tests.support.services.json_server import Request as Request

TOKEN = "hf_ada"
USER = "ada"
ORGANIZATION = "club"
MAX_REGULAR_BYTES = 1_000_000
MAX_LARGE_BYTES = 8_000_000

Files = dict[str, bytes]


@dataclass
class Repo:
    """A repository: what its commits hold, and the settings of a Space."""

    private: bool = False
    hardware: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Files] = field(default_factory=lambda: {"0" * 40: {".gitattributes": b"*.bin filter=lfs\n"}})
    messages: list[str] = field(default_factory=list)
    head: str = "0" * 40
    pull_requests: list[Files] = field(default_factory=list)

    @property
    def files(self) -> Files:
        """What its main branch holds."""
        return self.commits[self.head]

    def at(self, revision: str) -> str | None:
        """The commit that a revision stands for."""
        commit = self.head if revision == "main" else revision
        return commit if commit in self.commits else None


class HubServer(JsonServer):
    """The Hub: its repositories by kind and id."""

    def __init__(self) -> None:
        super().__init__()
        self.repos: dict[tuple[str, str], Repo] = {}
        self.large: dict[str, bytes] = {}

    def space(self, repo_id: str) -> Repo:
        """Return a Space."""
        return self.repos["space", repo_id]

    def dataset(self, repo_id: str) -> Repo:
        """Return a dataset."""
        return self.repos["dataset", repo_id]

    def add(self, repo_id: str, files: Files, kind: str = "space", **settings: Any) -> Repo:
        """Make a repository that holds some files."""
        repo = Repo(**settings)
        repo.head = secrets.token_hex(20)
        repo.commits[repo.head] = dict(files)
        self.repos[kind, repo_id] = repo
        return repo

    def _route(self, request: Request) -> Answer:
        for pattern, handle in ROUTES:
            found = re.fullmatch(pattern, request.line)
            if found:
                return handle(self, request, *map(unquote, found.groups()))
        return Answer(404, {"error": f"no such endpoint: {request.line}"})

    def _known(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {TOKEN}"

    def _seen(self, request: Request, kind: str, repo_id: str) -> Repo | None:
        repo = self.repos.get((kind, repo_id))
        return repo if repo is not None and (self._known(request) or not repo.private) else None

    def _may_write(self, request: Request, repo_id: str, kind: str = "space") -> Answer | None:
        if not self._known(request):
            return Answer(401, {"error": "Invalid username or password."})
        if repo_id.partition("/")[0] not in (USER, ORGANIZATION):
            return Answer(403, {"error": "You don't have the rights to do that in this namespace."})
        return None if (kind, repo_id) in self.repos else MISSING

    def whoami(self, request: Request) -> Answer:
        """Who the token stands for."""
        known = self._known(request)
        return Answer(200, {"name": USER, "orgs": [{"name": ORGANIZATION}]}) if known else Answer(401, {"error": "?"})

    def validate(self, request: Request) -> Answer:
        """Look at a README's front matter."""
        good = request.json["repoType"] != "space" or "sdk: docker" in request.json["content"]
        errors = [] if good else [{"message": '"sdk" is required'}]
        return Answer(200 if good else 400, {"errors": errors, "warnings": []})

    def create(self, request: Request) -> Answer:
        """Make a Space or a dataset."""
        asked = request.json
        kind, repo_id = asked["type"], f"{asked['organization'] or USER}/{asked['name']}"
        refusal = self._may_write(request, repo_id, kind)
        if refusal is not None and refusal is not MISSING:
            return refusal
        url = {"url": f"{self.url}/{kind}s/{repo_id}"}
        if (kind, repo_id) in self.repos:
            return Answer(409, {**url, "error": f"You already created this {kind}"})
        assert (kind, asked.get("sdk")) in (("space", "docker"), ("dataset", None))
        self.repos[kind, repo_id] = _made(asked)
        return Answer(200, url)

    def duplicate(self, request: Request, source: str) -> Answer:
        """Make a Space from another."""
        old, target = self._seen(request, "space", source), request.json["repository"]
        refusal = self._may_write(request, target)
        if old is None or (refusal is not None and refusal is not MISSING):
            return refusal or MISSING
        url = {"url": f"{self.url}/spaces/{target}"}
        if ("space", target) in self.repos:
            return Answer(409, {**url, "error": "This Space exists already"})
        new = _made(request.json)
        new.variables = {**old.variables, **new.variables}
        new.commits, new.head = dict(old.commits), old.head
        self.repos["space", target] = new
        return Answer(200, url)

    def info(self, request: Request, kind: str, repo_id: str, revision: str = "main") -> Answer:
        """Tell of a repository."""
        repo = self._seen(request, kind, repo_id)
        if repo is None:
            return MISSING
        commit = repo.at(revision)
        if commit is None:
            return Answer(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
        known = {"id": repo_id, "sha": commit, "private": repo.private, "siblings": []}
        return Answer(200, {**known, "tags": [], "downloads": 0, "likes": 0})

    def tree(self, request: Request, kind: str, repo_id: str, revision: str) -> Answer:
        """List the files of a commit."""
        repo = self._seen(request, kind, repo_id)
        commit = None if repo is None else repo.at(revision)
        if repo is None or commit is None:
            return MISSING
        files = repo.commits[commit]
        return Answer(200, [_listed(path, content) for path, content in files.items()])

    def resolve(self, request: Request, kind: str, repo_id: str, revision: str, path: str) -> Answer:
        """Give a file, or from one of its bytes on."""
        repo = self._seen(request, kind, repo_id)
        commit = None if repo is None else repo.at(revision)
        if repo is None or commit is None or path not in repo.commits[commit]:
            return MISSING
        content = repo.commits[commit][path]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{_git_oid(content)}"'}
        first = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
        return Answer(206 if first else 200, content[int(first[1]) if first else 0 :], headers)

    def settings(self, request: Request, kind: str, repo_id: str) -> Answer:
        """Make a Space or a dataset private or public."""
        refusal = self._may_write(request, repo_id, kind)
        if refusal is None:
            self.repos[kind, repo_id].private = request.json["visibility"] == "private"
        return refusal or Answer(200, {})

    def variables(self, request: Request, repo_id: str) -> Answer:
        """Tell a Space's variables, or set one."""
        refusal = self._may_write(request, repo_id)
        if refusal is None and request.method == "POST":
            self.space(repo_id).variables[request.json["key"]] = request.json["value"]
        return refusal or Answer(200, {key: {"value": value} for key, value in self.space(repo_id).variables.items()})

    def secrets(self, request: Request, repo_id: str) -> Answer:
        """Tell the names of a Space's secrets, or set one."""
        refusal = self._may_write(request, repo_id)
        if refusal is None and request.method == "POST":
            self.space(repo_id).secrets[request.json["key"]] = request.json["value"]
        return refusal or Answer(200, {key: {} for key in self.space(repo_id).secrets})

    def hardware(self, request: Request, repo_id: str) -> Answer:
        """Run a Space on other hardware."""
        refusal = self._may_write(request, repo_id)
        if refusal is None:
            self.space(repo_id).hardware = request.json["flavor"]
        return refusal or Answer(200, {"stage": "BUILDING", "hardware": {"current": None, "requested": None}})

    def preupload(self, request: Request, kind: str, repo_id: str) -> Answer:
        """Say which files are to come as large ones, and which are there already."""
        repo = self._seen(request, kind, repo_id)
        if repo is None:
            return MISSING
        return Answer(200, {"files": [self._mode(repo, file) for file in request.json["files"]]})

    def _mode(self, repo: Repo, file: Mapping[str, Any]) -> dict[str, Any]:
        large = file["size"] > MAX_REGULAR_BYTES or b"\0" in base64.b64decode(file["sample"])
        there = repo.files.get(file["path"])
        oid = None if there is None else hashlib.sha256(there).hexdigest() if large else _git_oid(there)
        mode = "lfs" if large else "regular"
        return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid}

    def batch(self, request: Request, _kind: str, _repo_id: str) -> Answer:
        """Say where large files are to go."""
        objects = []
        for each in request.json["objects"]:
            if each["size"] > MAX_LARGE_BYTES:
                objects.append({**each, "error": {"code": 422, "message": "This file is larger than allowed"}})
            elif each["oid"] in self.large:
                objects.append(each)
            else:
                objects.append({**each, "actions": {"upload": {"href": f"{self.url}/large/{each['oid']}"}}})
        return Answer(200, {"objects": objects, "transfer": "basic"})

    def store(self, request: Request, oid: str) -> Answer:
        """Take a large file."""
        assert hashlib.sha256(request.body).hexdigest() == oid
        self.large[oid] = request.body
        return Answer(200, {})

    def commit(self, request: Request, kind: str, repo_id: str) -> Answer:
        """Change files."""
        proposed = "create_pr" in request.query
        refusal = None if proposed and self._known(request) else self._may_write(request, repo_id, kind)
        if refusal is not None:
            return refusal
        repo = self.repos[kind, repo_id]
        lines = [json.loads(line) for line in request.body.splitlines()]
        files = self._changed(repo.files, [(line["key"], line["value"]) for line in lines[1:]])
        oid = secrets.token_hex(20)
        url = f"{self.url}/{kind}s/{repo_id}"
        if proposed:
            repo.pull_requests.append(files)
        else:
            repo.commits[oid], repo.head = files, oid
            repo.messages.append(lines[0]["value"]["summary"])
        pull_request = f"{url}/discussions/{len(repo.pull_requests)}" if proposed else None
        return Answer(200, {"commitUrl": f"{url}/commit/{oid}", "commitOid": oid, "pullRequestUrl": pull_request})

    def _changed(self, files: Files, operations: list[tuple[str, dict[str, Any]]]) -> Files:
        changed = dict(files)
        for key, value in operations:
            if key == "deletedFile":
                del changed[value["path"]]
            else:
                content = self.large[value["oid"]] if key == "lfsFile" else base64.b64decode(value["content"])
                changed[value["path"]] = content
        return changed


MISSING = Answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})

_ID = "([^/]+/[^/]+)"
ROUTES: list[tuple[str, Callable[..., Answer]]] = [
    ("GET /api/whoami-v2", HubServer.whoami),
    ("POST /api/validate-yaml", HubServer.validate),
    ("POST /api/repos/create", HubServer.create),
    (f"POST /api/spaces/{_ID}/duplicate", HubServer.duplicate),
    (f"GET /api/(space|model|dataset)s/{_ID}", HubServer.info),
    (f"GET /api/(space|model|dataset)s/{_ID}/revision/([^/]+)", HubServer.info),
    (f"GET /api/(space|model|dataset)s/{_ID}/tree/([^/]+)", HubServer.tree),
    (f"(?:GET|HEAD) /(space|dataset)s/{_ID}/resolve/([^/]+)/(.+)", HubServer.resolve),
    (
        f"(?:GET|HEAD) /()(?!spaces/|datasets/){_ID}/resolve/([^/]+)/(.+)",
        lambda hub, request, _, *rest: hub.resolve(request, "model", *rest),
    ),
    (f"PUT /api/(space|dataset)s/{_ID}/settings", HubServer.settings),
    (f"(?:GET|POST) /api/spaces/{_ID}/variables", HubServer.variables),
    (f"(?:GET|POST) /api/spaces/{_ID}/secrets", HubServer.secrets),
    (f"POST /api/spaces/{_ID}/hardware", HubServer.hardware),
    (f"POST /api/(space|dataset)s/{_ID}/preupload/main", HubServer.preupload),
    (f"POST /(space|dataset)s/{_ID}.git/info/lfs/objects/batch", HubServer.batch),
    ("PUT /large/([0-9a-f]{64})", HubServer.store),
    (f"POST /api/(space|dataset)s/{_ID}/commit/main", HubServer.commit),
]


def _made(asked: Mapping[str, Any]) -> Repo:
    return Repo(
        private=asked.get("visibility") == "private",
        hardware=asked.get("hardware"),
        variables={each["key"]: each["value"] for each in asked.get("variables", [])},
        secrets={each["key"]: each["value"] for each in asked.get("secrets", [])},
    )


def _listed(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(content), "oid": _git_oid(content)}


def _git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """Run a Hub for a while."""
    with serving(HubServer()) as hub:
        yield hub
