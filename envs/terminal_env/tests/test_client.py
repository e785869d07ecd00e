import pytest

from openenv.core.mcp_client import MCPToolClient
from terminal_env import (
    ReadFileAction,
    RunAction,
    SubmitAction,
    TerminalEnv,
    TerminalObservation,
    TerminalState,
    WriteFileAction,
)

pytestmark = pytest.mark.needs("sandbox")


def test_actions_results_and_state_have_their_types(terminal_url: str) -> None:
    with TerminalEnv(base_url=terminal_url).sync() as env:
        first = env.reset(seed=3, family="logs", difficulty="easy").observation
        assert isinstance(first, TerminalObservation)
        assert env.step(
            RunAction(command="mkdir a && cd a && export B=two && ls ../logs | head -n 1")
        ).observation.output
        assert env.step(RunAction(command="pwd; echo $B")).observation.output == "/work/a\ntwo\n"
        env.step(WriteFileAction(path="a/b.txt", text="é\n"))
        assert env.step(ReadFileAction(path="a/b.txt")).observation.output == "é\n"
        state = env.state()
        assert isinstance(state, TerminalState)
        assert (state.family, state.difficulty, state.step_count, state.steps_left) == ("logs", "easy", 4, 26)
        last = env.step(SubmitAction())
    assert (last.done, last.reward, last.observation.checks) == (True, 0.0, {"the number in answer.txt": False})


def test_an_episode_is_forked_with_its_files_and_folder(terminal_url: str) -> None:
    with TerminalEnv(base_url=terminal_url).sync() as env:
        env.reset(seed=3)
        env.step(RunAction(command="mkdir a && cd a && date +%N > now && ls -la"))
        for fork in env.fork(2):
            with fork:
                same = RunAction(command="pwd; cat now")
                assert fork.step(same).observation.output == env.step(same).observation.output


def test_agents_have_four_tools(terminal_url: str) -> None:
    with MCPToolClient(base_url=terminal_url).sync() as env:
        env.reset(seed=3)
        assert [tool.name for tool in env.list_tools()] == ["run", "write_file", "read_file", "submit"]
        assert "hello" in str(env.call_tool("run", command="echo hello"))
        assert "The episode is over." in str(env.call_tool("submit"))
