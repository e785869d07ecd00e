from pathlib import Path

import pytest

from browsergym_env.server.settings import Settings, find_chromium
from openenv.core.exceptions import ConfigurationError


def test_the_defaults() -> None:
    settings = Settings.from_variables({})
    assert (settings.viewport_width, settings.viewport_height, settings.timeout_ms) == (1280, 720, 10_000)
    assert (settings.task_name, settings.screenshot, settings.headless) == ("click-button", True, True)
    assert settings.sandbox is None


def test_variables_are_read_and_empty_ones_are_not() -> None:
    read = Settings.from_variables(
        {
            "BROWSERGYM_BENCHMARK": "miniwob",
            "BROWSERGYM_TASK_NAME": "enter-text",
            "BROWSERGYM_SCREENSHOT": "False",
            "BROWSERGYM_VIEWPORT_WIDTH": "332",
            "BROWSERGYM_VIEWPORT_HEIGHT": "",
            "BROWSERGYM_TIMEOUT": "500",
            "BROWSERGYM_HEADLESS": "0",
            "BROWSERGYM_EXECUTABLE": "/opt/chromium",
            "BROWSERGYM_SANDBOX": "1",
            "UNRELATED": "x",
        }
    )
    assert read == Settings(
        task_name="enter-text",
        screenshot=False,
        viewport_width=332,
        timeout_ms=500,
        headless=False,
        executable="/opt/chromium",
        sandbox=True,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BENCHMARK", "webarena"),
        ("TASK_NAME", "click-nothing"),
        ("TASK_NAME", "../core/core"),
        ("SCREENSHOT", "maybe"),
        ("VIEWPORT_WIDTH", "-1"),
        ("VIEWPORT_WIDTH", "10"),
        ("VIEWPORT_HEIGHT", "9" * 50),
        ("VIEWPORT_HEIGHT", "²"),
        ("TIMEOUT", "0"),
        ("TIMEOUT", "1.5"),
        ("SANDBOX", "2"),
        ("PORT", "http"),
    ],
)
def test_a_wrong_value_is_refused_and_named(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"BROWSERGYM_{name}") as refused:
        Settings.from_variables({f"BROWSERGYM_{name}": value})
    assert "xpected" in str(refused.value)


def test_a_chromium_is_looked_for_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_chromium(None) is None
    for name in ("google-chrome", "chromium"):
        (tmp_path / name).touch(mode=0o755)
        assert find_chromium(None) == tmp_path / name
    assert find_chromium("google-chrome") == tmp_path / "google-chrome"
    assert find_chromium(str(tmp_path / "chromium")) == tmp_path / "chromium"
    with pytest.raises(ConfigurationError, match="BROWSERGYM_EXECUTABLE"):
        find_chromium(str(tmp_path / "nothing"))
