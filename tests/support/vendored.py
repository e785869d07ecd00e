"""``make vendor``: fetches the libraries that the page loads from npm again, in the versions of ``vendor.json``.

They are ES modules that a browser loads as they are, beside the page's own. An import by a package's name becomes a
relative one, so that the page needs no import map, which its policy would have to allow. Pointers to source maps go.
To change a version, change it in ``vendor.json`` and run this; it ends with status 1 if anything differs from before.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.services.npm_packages import NODE, NPM

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src" / "openenv" / "core" / "env_server" / "web" / "static" / "vendor"
LIST = FOLDER / "vendor.json"
LICENCES = FOLDER / "LICENSES.txt"
_IMPORTS = {b'from"preact"': b'from"./preact.mjs"'}
_SOURCE_MAP = b"//# sourceMappingURL="


def listed() -> dict[str, Any]:
    """Return what ``vendor.json`` says of each file: its package, version, path there, and SHA-256."""
    found: dict[str, Any] = json.loads(LIST.read_text())
    return found


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file, as ``vendor.json`` has it."""
    return hashlib.sha256(content).hexdigest()


def adapted(content: bytes) -> bytes:
    """Return a module with relative imports and without its source map."""
    for by_name, relative in _IMPORTS.items():
        content = content.replace(by_name, relative)
    return b"\n".join(line for line in content.splitlines() if not line.startswith(_SOURCE_MAP)) + b"\n"


def main() -> int:
    """Fetch the files; return 1 if any of them differs from what ``vendor.json`` said."""
    files = listed()
    packages = sorted({f"{file['package']}@{file['version']}" for file in files.values()})
    with TemporaryDirectory() as folder:
        options = ["--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run([str(NODE / "node"), str(NPM), "install", *options, *packages], check=True)
        modules = Path(folder) / "node_modules"
        changed = [name for name, file in files.items() if _refresh(name, file, modules)]
        names = sorted({file["package"] for file in files.values()})
        licences = [f"{name}\n\n{(modules / name / 'LICENSE').read_text().strip()}\n" for name in names]
    LICENCES.write_text("\n".join(licences))
    LIST.write_text(json.dumps(files, indent=2) + "\n")
    sys.stdout.write(f"Changed: {', '.join(changed)}\n" if changed else "The files are those that npm has.\n")
    return 1 if changed else 0


def _refresh(name: str, file: dict[str, Any], modules: Path) -> bool:
    content = adapted((modules / file["package"] / file["path"]).read_bytes())
    (FOLDER / name).write_bytes(content)
    before, file["sha256"] = file["sha256"], digest(content)
    return bool(before != file["sha256"])


if __name__ == "__main__":
    sys.exit(main())
