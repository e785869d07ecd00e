"""Parser of packages with ``openenv.yaml``."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from openenv.core.documents import DocumentError, parse_yaml
from openenv.validation.manifest import ManifestError, NormalizedManifest, NormalizedManifestV2
from openenv.validation.types import SignatureKind

VALIDATION_BLOCK_REMEDIATION = (
    "Add a mapping `validation:` to openenv.yaml with reward, resources, capabilities and types; "
    "docs/validation.md has an example, and `openenv init` writes one."
)
SCHEMA_REMEDIATION = "Correct these keys of openenv.yaml; docs/validation.md lists what each may be."
BLOCK = "validation"
POLICY = "policy"
"""Key of the mapping that names the policy of `openenv validate`; other programs ignore it."""
KEYS = ("reward", "judge", "resources", "task_distribution", "network", "capabilities", "types", "execution")
"""Keys of the mapping; others are left to the programs that know them."""


class OpenEnvYamlParser:
    """Parser of the mapping ``validation:`` in ``openenv.yaml``.

    Example:
        >>> OpenEnvYamlParser().signature.value
        'openenv.yaml'
    """

    signature = SignatureKind.OPENENV_SERVED

    def parse(self, package_root: Path) -> NormalizedManifest:
        """Read a package's declarations.

        Args:
            package_root: The package's folder.

        Returns:
            The manifest; of version 2 where the package declares how it is run.

        Raises:
            ManifestError: The file can't be read, or its declarations are not valid.
        """
        content = self._content(package_root / self.signature.value)
        block = content.get(BLOCK)
        if block is None:
            raise ManifestError(["openenv.yaml has no `validation:` block"], remediation=VALIDATION_BLOCK_REMEDIATION)
        if not isinstance(block, dict):
            raise ManifestError(["`validation:` must be a mapping"], remediation=VALIDATION_BLOCK_REMEDIATION)
        model = NormalizedManifestV2 if "execution" in block else NormalizedManifest
        declared = {key: block[key] for key in KEYS if key in block}
        named = {key: content[key] for key in ("name", "version") if key in content}
        version = "2" if "execution" in block else "1"
        try:
            return model.model_validate(
                {"manifest_schema_version": version, "signature": self.signature, **named, **declared}
            )
        except ValidationError as error:
            raise ManifestError(_lines(error), remediation=SCHEMA_REMEDIATION) from error

    def _content(self, file: Path) -> dict[Any, Any]:
        try:
            content = parse_yaml(file.read_text(encoding="utf-8"))
        except (OSError, DocumentError, UnicodeDecodeError) as error:
            raise ManifestError([f"openenv.yaml is not valid YAML: {error}"], remediation=SCHEMA_REMEDIATION) from error
        if not isinstance(content, dict):
            raise ManifestError(["openenv.yaml must be a YAML mapping"], remediation=SCHEMA_REMEDIATION)
        return content


def _lines(error: ValidationError) -> list[str]:
    """Return a line for each fault: the keys that lead to it, and the message."""
    return [
        f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" if fault["loc"] else fault["msg"]
        for fault in error.errors()
    ]
