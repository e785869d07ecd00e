"""Metadata of environments, with and without an instance."""

from functools import partial
from pathlib import Path

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total

from openenv.core.env_server.web_interface import get_quick_start_markdown, load_environment_metadata


def make_counter() -> CounterEnvironment:
    raise AssertionError("no instance may be made for its metadata")


def test_an_instance_describes_itself() -> None:
    assert load_environment_metadata(CounterEnvironment()) == CounterEnvironment().get_metadata()


@pytest.mark.parametrize("source", [make_counter, partial(make_counter), partial(partial(make_counter))])
def test_a_factory_is_described_by_the_given_name(source: object) -> None:
    metadata = load_environment_metadata(source, "counter_env")

    assert (metadata.name, metadata.description) == ("counter_env", "counter_env environment")


def test_the_readme_is_found_in_the_repository_or_by_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "envs" / "counter_env"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Counter")
    (tmp_path / "OTHER.md").write_text("# Other")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ENV_README_PATH", raising=False)

    assert load_environment_metadata(CounterEnvironment, "counter_env").readme_content == "# Counter"
    monkeypatch.setenv("ENV_README_PATH", str(tmp_path / "OTHER.md"))
    assert load_environment_metadata(CounterEnvironment, "counter_env").readme_content == "# Other"


def test_the_first_lines_of_python_for_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPACE_HOST", raising=False)
    metadata = load_environment_metadata(CounterEnvironment, "counter_env")
    text = get_quick_start_markdown(metadata, Add, Total)
    assert "### Play counter_env from Python" in text
    assert 'openenv.make("http://localhost:8000")' in text
    assert "env.step({'amount': 0})" in text
    compile(text.split("```")[1].removeprefix("python\n"), "quick start", "exec")

    monkeypatch.setenv("SPACE_HOST", "me-counter.hf.space")
    assert 'openenv.make("https://me-counter.hf.space")' in get_quick_start_markdown(None, Add, Total)
