"""Environment with an action that stands for those of tools, as one of the public project has it."""

from typing import Any, ClassVar

from pydantic import TypeAdapter

from openenv import Action, Environment, Observation, State
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction, ListToolsObservation, Tool


class LampAction(Action):
    """Stands for the actions of tools: fields make one of these, never a ``LampAction``."""

    @classmethod
    def model_validate(cls, obj: Any, **_options: Any) -> Any:
        return _LAMP_ACTIONS.validate_python(obj)


_LAMP_ACTIONS: TypeAdapter[Any] = TypeAdapter(ListToolsAction | CallToolAction)


class DimAction(Action):
    """An action of its own, beside those of tools, which its fields may make."""

    level: int

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Any:
        return _LAMP_ACTIONS.validate_python(obj) if "type" in obj else super().model_validate(obj, **options)


class LampSeen(Observation):
    """The lamp, or an error in a form of the author's own."""

    lit: bool | None = None
    error: str | None = None


class Lamp(Environment[LampAction, LampSeen, State]):
    """A lamp with one tool, made by its own step."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(self) -> LampSeen:
        self._state = State()
        return LampSeen(lit=False)

    def step(self, action: Any) -> Any:
        if isinstance(action, ListToolsAction):
            schema = {"type": "object", "properties": {}}
            return ListToolsObservation(tools=[Tool(name="switch", description="Switch it.", input_schema=schema)])
        if action.tool_name != "switch":
            return LampSeen(error=f"no {action.tool_name}", reward=-1.0)
        self._state.step_count += 1
        return LampSeen(lit=self._state.step_count % 2 == 1, reward=1.0)

    @property
    def state(self) -> State:
        return self._state


class DimmableLamp(Environment[DimAction, LampSeen, State]):
    """A lamp with an action beside the tool."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._lamp = Lamp()

    def reset(self) -> LampSeen:
        return self._lamp.reset()

    def step(self, action: Any) -> Any:
        return LampSeen(lit=action.level > 0) if isinstance(action, DimAction) else self._lamp.step(action)

    @property
    def state(self) -> State:
        return self._lamp.state
