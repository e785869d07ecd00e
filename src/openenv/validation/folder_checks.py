"""All checks of an environment's folder. None of its code is imported or run."""

from openenv.validation.code_checks import CODE_CHECKS
from openenv.validation.file_checks import FILE_CHECKS
from openenv.validation.findings import run_check
from openenv.validation.package_checks import PACKAGE_CHECKS
from openenv.validation.report import CheckResult
from openenv.validation.source import Source

CHECKS = (*FILE_CHECKS, *PACKAGE_CHECKS, *CODE_CHECKS)


def check_source(source: Source) -> list[CheckResult]:
    """Make all checks of a folder."""
    return [result for check in CHECKS for result in run_check(check, source)]
