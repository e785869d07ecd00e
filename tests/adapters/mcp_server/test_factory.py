"""What is checked before a server is started, and what goes to other processes."""

import os
import pickle
from pathlib import Path

import pytest
from tests.support.mcp_servers import command

from openenv.adapters.mcp_server import McpServerEnvironment, environment_for
from openenv.core.exceptions import ConfigurationError


async def test_it_can_be_made_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"prompt": "Say four."}')
    (tmp_path / "score.py").write_text("def reward(task, calls, final): return 1")
    monkeypatch.chdir(tmp_path)
    made = environment_for(" ".join(command()), Path("tasks.jsonl"), "score.py:reward", ["NOTES_KEY"])
    monkeypatch.chdir("/")
    assert made.keywords["reward"] == f"{tmp_path / 'score.py'}:reward"
    factory = pickle.loads(pickle.dumps(made))
    env = factory()
    assert isinstance(env, McpServerEnvironment)
    assert (await env.reset()).prompt == "Say four."
    await env.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("no-such-program --fast",), "there is no program 'no-such-program'"),
        (("",), "got nothing"),
        ((f"{os.devnull} x",), "there is no program"),
        (("python3 x.py", Path("nowhere.json")), "can't be read from"),
        (("python3 x.py", None, "nowhere.py:reward"), "can't be imported"),
    ],
)
def test_what_can_t_be_is_refused_at_once(arguments: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        environment_for(*arguments)  # type: ignore[arg-type]
