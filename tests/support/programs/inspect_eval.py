"""Run a task of Inspect's with its mock model, which answers by script. Argument: the folder of the log."""

import sys

import inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, ToolChoice, ToolError, ToolInfo, tool

MODEL = "mockllm/model"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="
# Else Inspect counts the tokens, with a vocabulary that it fetches.
USAGE = ModelUsage(input_tokens=5, output_tokens=2, total_tokens=7)


@tool
def root() -> Tool:
    """Tool that takes a square root."""

    async def execute(number: int) -> str:
        """Take a square root.

        Args:
            number: The number.
        """
        if number < 0:
            raise ToolError("It has no root.")
        return str(int(number**0.5))

    return execute


def answer(
    messages: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
) -> ModelOutput:
    """Ask for the root of -9 and of 9, then say 3; ask without end, or fail, where the question says so."""
    question = messages[0].text
    if "fail" in question:
        raise RuntimeError("The model is out of order.")
    said = sum(isinstance(message, ChatMessageAssistant) for message in messages)
    results = [message for message in messages if isinstance(message, ChatMessageTool)]
    if "endless" in question or len(results) < 2:
        number = 9 if said else -9
        call = ModelOutput.for_tool_call(MODEL, "root", {"number": number}, tool_call_id=f"call{said}")
        return call.model_copy(update={"usage": USAGE})
    parts = [ContentReasoning(reasoning="Three times three."), ContentText(text="It is 3.")]
    output = ModelOutput.from_message(ChatMessageAssistant(content=list(parts), model=MODEL, source="generate"))
    return output.model_copy(update={"usage": USAGE})


def main() -> None:
    picture = ChatMessageUser(content=[ContentText(text="The root of 9?"), ContentImage(image=PIXEL)])
    samples = [
        Sample(id="picture", input=[picture], target="3"),
        Sample(id="wrong", input="The root of 16?", target="4"),
        Sample(id="endless", input="An endless question.", target="3"),
        Sample(id="failed", input="Please fail.", target="3"),
    ]
    task = inspect_ai.Task(
        dataset=samples, solver=[use_tools(root()), generate()], scorer=includes(), message_limit=8, fail_on_error=False
    )
    model = get_model(MODEL, custom_outputs=answer)
    (log,) = inspect_ai.eval(task, model=model, log_dir=sys.argv[1], log_format="eval", display="none", epochs=1)
    sys.stdout.write(f"{log.location}\n")


if __name__ == "__main__":
    main()
