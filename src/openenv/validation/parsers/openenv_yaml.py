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
            The manifest; of version 2 where the package says how it is run.

        Raises:
            ManifestError: The file can't be read, or its declarations are not valid.
        """
        content = self._content(package_root / self.signature.value)
        if BLOCK not in content:
            raise ManifestError(["openenv.yaml has no `validation:` block"], remediation=VALIDATION_BLOCK_REMEDIATION)
        block = content[BLOCK]
        if not isinstance(block, dict):
            raise ManifestError(["`validation:` must be a mapping"], remediation=VALIDATION_BLOCK_REMEDIATION)
        model = NormalizedManifestV2 if "execution" in block else NormalizedManifest
        known = {
            "manifest_schema_version": "2" if "execution" in block else "1",
            "name": content.get("name"),
            "version": content.get("version"),
            "signature": self.signature,
        }
        errors = [f"{key}: is no key of `validation:`" for key in known if key in block]
        if errors:
            raise ManifestError(errors, remediation=SCHEMA_REMEDIATION)
        try:
            return model.model_validate({**known, **block})
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
