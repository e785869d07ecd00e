"""Probes of the sandbox and the browser, which keep code and pages in and are really started."""

import os
import shutil
import subprocess
from importlib.util import find_spec

from openenv.core.exceptions import ConfigurationError, SandboxUnavailableError
from openenv.core.sandbox.cgroup import VARIABLE as CGROUP
from openenv.core.sandbox.sandbox import Sandbox
from openenv.doctor.finding import Finding, Status
from openenv.doctor.programs import TIMEOUT_S, output_of

_BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_PAGE = "data:text/html,<p>it works"


def sandbox() -> Finding:
    """Run a line of Python in a sandbox: namespaces, filters of system calls, limits, a control group if one is set."""
    used_for = "code that a model wrote (coding, terminal)"
    try:
        with Sandbox() as started:
            ran = started.python("print(6 * 7)")
    except SandboxUnavailableError as error:
        remedy = "sudo apt-get install bubblewrap libseccomp2"
        return Finding("sandbox", Status.MISSING, f"{error}", used_for, remedy)
    except ConfigurationError as error:  # the control group that was set aside
        return Finding("sandbox", Status.MISSING, f"{error}", used_for, f"unset {CGROUP}")
    if ran.stdout.strip() != "42":
        return Finding("sandbox", Status.MISSING, f"it started, and failed: {ran.stderr.strip()}", used_for)
    memory = "a control group" if os.environ.get(CGROUP) else "limits of its own"
    detail = f"bubblewrap, with filters of system calls; memory is bounded by {memory}"
    return Finding("sandbox", Status.READY, detail, used_for)


def browser() -> Finding:
    """Have a Chromium show a page."""
    used_for = "environments with web pages (browsergym)"
    command = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if command is None:
        remedy = "sudo apt-get install chromium" if find_spec("playwright") is None else "playwright install chromium"
        return Finding("browser", Status.MISSING, "there is no Chromium on the path", used_for, remedy)
    options = ["--headless", "--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    try:
        page = output_of(command, *options, "--dump-dom", _PAGE)
    except subprocess.TimeoutExpired:
        return Finding("browser", Status.UNSURE, f"{command} had not shown a page after {TIMEOUT_S:g} s", used_for)
    if "it works" in page.stdout:
        return Finding("browser", Status.READY, f"{command} shows pages", used_for)
    lines = page.stderr.strip().splitlines()
    return Finding("browser", Status.MISSING, f"{command} shows no page: {lines[-1] if lines else ''}", used_for)
