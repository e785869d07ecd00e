"""Checks of an environment: of its folder, and of the episodes that it plays."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.validation.graders": ("ENTRY_POINT_GROUP", "Grader", "GraderRegistry", "Subject"),
        "openenv.validation.manifest": (
            "CapabilitiesSpec",
            "JudgePin",
            "ManifestError",
            "NetworkPolicy",
            "NormalizedManifest",
            "OracleDeclaration",
            "ResourceDeclaration",
            "RewardDeclaration",
            "TaskDistributionPin",
            "TypeSpec",
            "VerifierBinding",
        ),
        "openenv.validation.parsers": ("Parser", "ParserRegistry"),
        "openenv.validation.policy": (
            "DeclarationBounds",
            "PolicyEntry",
            "PolicyError",
            "SeverityPolicy",
            "apply_policy",
            "load_policy",
        ),
        "openenv.validation.providers": ("ExecResult", "RunningSubject", "ValidationProvider"),
        "openenv.validation.report": ("CheckResult", "ValidationReport", "write_report"),
        "openenv.validation.runner": ("run_validation",),
        "openenv.validation.signature": (
            "UNSUPPORTED_CATEGORIES",
            "WELL_KNOWN_FILES",
            "SignatureError",
            "UnsupportedPackageError",
            "detect_signature",
        ),
        "openenv.validation.types": (
            "CheckStatus",
            "Lane",
            "Level",
            "ProviderCapability",
            "Severity",
            "SignatureKind",
            "Verdict",
        ),
    },
    unlisted={
        "openenv.validation.own_policy": ("validate_folder",),
        "openenv.validation.source": ("Source", "read_source"),
    },
)
