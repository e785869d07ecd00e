"""Serve a counter with a page made by Gradio, which is found in the folder that the first argument names."""

import argparse
import sys
from importlib import import_module
from typing import Any

from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv.core.env_server.app import create_web_interface_app, listen, run_app


def build(
    web_manager: Any, action_fields: list[dict[str, Any]], metadata: Any, is_chat_env: bool, title: str, quick: str
) -> Any:
    """Build a page that resets and steps, as public environments do."""
    gradio = import_module("gradio")

    async def reset() -> Any:
        return (await web_manager.reset_environment({}))["observation"]

    async def step(amount: float) -> Any:
        return await web_manager.step_environment({action_fields[0]["name"]: int(amount)})

    with gradio.Blocks() as blocks:
        gradio.Markdown(f"# {title}\n{metadata.description}\n{quick}")
        shown, amount = gradio.JSON(), gradio.Number()
        gradio.Button("Reset").click(reset, None, shown, api_name="reset")
        gradio.Button("Step").click(step, amount, shown, api_name="step")
        gradio.Button("State").click(web_manager.get_state, None, shown, api_name="state")
    return blocks


def main() -> None:
    """Serve until the process is ended; print the port first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("packages")
    sys.path.append(parser.parse_args().packages)  # behind our own, whose versions are the ones under test
    app = create_web_interface_app(
        CounterEnvironment, Add, Total, gradio_builder=build, custom_tab_name="Board", custom_tab_primary=True
    )
    with listen("127.0.0.1", 0) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201  # how the test learns the port
        run_app(app, listener=listener)


if __name__ == "__main__":
    main()
