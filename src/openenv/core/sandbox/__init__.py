"""A place where code that a model wrote can do no harm. Names are handed out on first use (PEP 562)."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.sandbox.execution import Execution as Execution
    from openenv.core.sandbox.limits import Limits as Limits
    from openenv.core.sandbox.limits import SandboxLimits as SandboxLimits
    from openenv.core.sandbox.pool import SandboxPool as SandboxPool
    from openenv.core.sandbox.process import Kind as Kind
    from openenv.core.sandbox.process import require_sandbox as require_sandbox
    from openenv.core.sandbox.sandbox import Sandbox as Sandbox
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.core.sandbox.execution": ("Execution",),
            "openenv.core.sandbox.limits": ("Limits", "SandboxLimits"),
            "openenv.core.sandbox.pool": ("SandboxPool",),
            "openenv.core.sandbox.process": ("Kind", "require_sandbox"),
            "openenv.core.sandbox.sandbox": ("Sandbox",),
        },
    )
