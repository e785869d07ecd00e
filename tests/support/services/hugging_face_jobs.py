"""Hugging Face's jobs on this machine: as much of the Hub's API, and of the server in a sandbox, as a sandbox needs."""

import json
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.services.cloud_machine import Machine
from tests.support.services.fake_cloud import RoutedServer
from tests.support.services.json_server import Answer, Request

TOKEN = "hf_ada"
USER = "ada"
GOOD_IMAGE = "hf.co/spaces/ada/echo_env"
BARE_IMAGE = "python:3.12"
_PROTOCOL = 3
_JOB = "/([0-9a-f]+)--49983\\.hf\\.jobs"


class FakeJob:
    """One job: what it was made of, its stage, and its machine."""

    def __init__(self, wanted: dict[str, Any], root: Path, stage: str) -> None:
        self.id = secrets.token_hex(12)
        self.wanted = wanted
        self.stage = stage
        self.machine = Machine(root / self.id, wanted["environment"], "ours" if "spaceId" in wanted else "none")
        self.url = ""

    def described(self) -> dict[str, Any]:
        """Say what it is."""
        owner = {"id": "1", "name": USER, "type": "user"}
        status = {"stage": self.stage, "message": None, "exposeUrls": [self.url]}
        return {**self.wanted, "id": self.id, "owner": owner, "status": status, "volumes": None, "expose": None}


class FakeJobs(RoutedServer):
    """The Hub, and the servers in its jobs.

    Args:
        root: A folder for the jobs' files.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.jobs: dict[str, FakeJob] = {}
        self.stage = "RUNNING"

    @property
    def running(self) -> list[FakeJob]:
        """The jobs that are billed."""
        return [job for job in self.jobs.values() if job.stage in ("RUNNING", "SCHEDULING")]

    def end(self) -> None:
        """End what still runs."""
        for job in self.jobs.values():
            job.machine.end()

    def _refusal(self, request: Request) -> Answer | None:
        if request.headers.get("authorization") == f"Bearer {TOKEN}":
            return None
        return Answer(401, {"error": "Invalid username or password."})

    def whoami(self, _request: Request) -> Answer:
        """Who the token stands for."""
        return Answer(200, {"name": USER, "orgs": []})

    def run(self, request: Request) -> Answer:
        """Start a job."""
        job = FakeJob(request.json, self.root, self.stage)
        required = {"Authorization": f"Bearer {TOKEN}", "X-Sandbox-Token": job.wanted["secrets"]["SBX_TOKEN"]}
        host = f"/{job.id}--49983.hf.jobs"
        proxy = job.machine.proxy(required, f"{host}/v1/proxy/8000", urlsplit(self.url).port)
        job.url = f"{proxy}{host}"
        self.jobs[job.id] = job
        return Answer(200, job.described())

    def listed(self, request: Request) -> Answer:
        """List the jobs with some labels."""
        labels = dict(label.split("=") for label in request.query["label"])
        found = [job for job in self.jobs.values() if labels.items() <= job.wanted["labels"].items()]
        return Answer(200, [job.described() for job in found])

    def inspect(self, _request: Request, job_id: str) -> Answer:
        """Tell of a job."""
        return Answer(200, self.jobs[job_id].described())

    def cancel(self, _request: Request, job_id: str) -> Answer:
        """End a job."""
        self.jobs[job_id].stage = "CANCELED"
        self.jobs[job_id].machine.end()
        return Answer(200, {})

    def health(self, _request: Request, job_id: str) -> Answer:
        """Say that the server in the job is up."""
        up = self.jobs[job_id].stage == "RUNNING"
        return Answer(200, {"protocol": _PROTOCOL}) if up else Answer(502, {"error": "not yet"})

    def execute(self, request: Request, job_id: str) -> Answer:
        """Run a command."""
        printed = self.jobs[job_id].machine.run(request.json["cmd"])
        events = [{"event": "stdout", "data": printed}, {"event": "exit", "exit_code": 0}]
        return Answer(200, "".join(f"{json.dumps(event)}\n" for event in events).encode())

    def start(self, request: Request, job_id: str) -> Answer:
        """Run a command in the background."""
        return Answer(200, {"id": "p1", "pid": self.jobs[job_id].machine.spawn(request.json["cmd"])})

    ROUTES = (
        ("GET /api/whoami-v2", whoami),
        (f"POST /api/jobs/{USER}", run),
        (f"GET /api/jobs/{USER}", listed),
        (f"GET /api/jobs/{USER}/([^/]+)", inspect),
        (f"POST /api/jobs/{USER}/([^/]+)/cancel", cancel),
        (f"GET {_JOB}/health", health),
        (f"POST {_JOB}/v1/exec", execute),
        (f"POST {_JOB}/v1/processes", start),
    )
