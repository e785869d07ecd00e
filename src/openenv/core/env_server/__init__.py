"""Serving an environment. Names are handed out on first use, so that a client never loads the server's libraries."""

from openenv._lazy import lazy_exports

_PACKAGE = "openenv.core.env_server"

__all__, __getattr__ = lazy_exports(
    __name__,
    {
        f"{_PACKAGE}.app": (
            "HTTPEnvServer",
            "create_app",
            "create_fastapi_app",
            "create_web_interface_app",
            "serve",
        ),
        f"{_PACKAGE}.interfaces": ("Environment", "Message", "ModelTokenizer", "TaskProvider", "Transform"),
        f"{_PACKAGE}.base_transforms": ("CompositeTransform", "NullTransform"),
        f"{_PACKAGE}.serialization": ("deserialize_action", "serialize_observation"),
        f"{_PACKAGE}.types": (
            "Action",
            "BaseMessage",
            "CodeExecResult",
            "ConcurrencyConfig",
            "EnvironmentMetadata",
            "HealthResponse",
            "HealthStatus",
            "Observation",
            "ResetRequest",
            "ResetResponse",
            "SchemaResponse",
            "ServerCapacityStatus",
            "ServerMode",
            "SessionInfo",
            "State",
            "StepRequest",
            "StepResponse",
            "WSCloseMessage",
            "WSErrorCode",
            "WSErrorResponse",
            "WSIncomingMessage",
            "WSMCPMessage",
            "WSMCPResponse",
            "WSObservationResponse",
            "WSResetMessage",
            "WSStateMessage",
            "WSStateResponse",
            "WSStepMessage",
        ),
        "openenv.core.exceptions": (
            "ConcurrencyConfigurationError",
            "EnvironmentFactoryError",
            "IllegalActionError",
            "OpenEnvError",
            "SessionCapacityError",
            "SessionCreationError",
            "SessionNotFoundError",
        ),
    },
)
