"""Rollouts by a harness: a program between model and environment, which drives a session's tools for one episode."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.harness.adapters import CLIHarnessAdapter as CLIHarnessAdapter
    from openenv.core.harness.adapters import HarnessAdapter as HarnessAdapter
    from openenv.core.harness.adapters import MCPHarnessAdapter as MCPHarnessAdapter
    from openenv.core.harness.bridge import SessionMCPBridge as SessionMCPBridge
    from openenv.core.harness.records import HarnessRolloutResult as HarnessRolloutResult
    from openenv.core.harness.records import HarnessRunLimits as HarnessRunLimits
    from openenv.core.harness.records import Message as Message
    from openenv.core.harness.records import ModelStep as ModelStep
    from openenv.core.harness.records import ModelStepResult as ModelStepResult
    from openenv.core.harness.records import RolloutEvent as RolloutEvent
    from openenv.core.harness.records import ToolResult as ToolResult
    from openenv.core.harness.records import ToolTraceEntry as ToolTraceEntry
    from openenv.core.harness.records import TraceEntry as TraceEntry
    from openenv.core.harness.records import VerifyResult as VerifyResult
    from openenv.core.harness.rollout import build_harness_rollout_func as build_harness_rollout_func
    from openenv.core.harness.session import LoopOwningSession as LoopOwningSession
    from openenv.core.harness.session import ResourceSession as ResourceSession
    from openenv.core.harness.session import ResourceSessionFactory as ResourceSessionFactory
    from openenv.core.harness.session import StepEnvSessionAdapter as StepEnvSessionAdapter
    from openenv.core.harness.session import TrainableSession as TrainableSession
    from openenv.core.harness.training import TrainingTrace as TrainingTrace
    from openenv.core.harness.training import TrainingTurn as TrainingTurn
    from openenv.core.wire.mcp_types import RESERVED_TOOL_NAMES as RESERVED_TOOL_NAMES
else:
    _PACKAGE = "openenv.core.harness"

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            f"{_PACKAGE}.adapters": ("CLIHarnessAdapter", "HarnessAdapter", "MCPHarnessAdapter"),
            f"{_PACKAGE}.bridge": ("SessionMCPBridge",),
            f"{_PACKAGE}.records": (
                "HarnessRolloutResult",
                "HarnessRunLimits",
                "Message",
                "ModelStep",
                "ModelStepResult",
                "RolloutEvent",
                "ToolResult",
                "ToolTraceEntry",
                "TraceEntry",
                "VerifyResult",
            ),
            f"{_PACKAGE}.rollout": ("build_harness_rollout_func",),
            f"{_PACKAGE}.session": (
                "LoopOwningSession",
                "ResourceSession",
                "ResourceSessionFactory",
                "StepEnvSessionAdapter",
                "TrainableSession",
            ),
            f"{_PACKAGE}.training": ("TrainingTrace", "TrainingTurn"),
            "openenv.core.wire.mcp_types": ("RESERVED_TOOL_NAMES",),
        },
    )
