"""Options of commands, derived from classes of settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import AfterValidator, BaseModel, Field
from typer.testing import CliRunner

from openenv.cli.groups import command_app
from openenv.cli.play_settings import play_options
from openenv.cli.setting_options import SettingOption, options_of, server_options, with_settings
from openenv.core.exceptions import ConfigurationError
from openenv.core.variables import Option
from openenv.deploy.settings import DeploymentSettings
from openenv.train.settings.config import PRETRAINED_DEFAULTS, TrainConfig, described_settings
from openenv.train.settings.play_settings import PlaySettings


def _lower_case(text: str) -> str:
    if text != text.lower():
        raise ConfigurationError(f"Expected lower case, got {text!r}.")
    return text


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Model(BaseModel):
    """Settings as a model of pydantic."""

    hidden: int = Field(default=1, description="no option")
    where: Annotated[Path, Option()] = Field(default=Path("here"), description="folder")
    tries: Annotated[int, Option(heading="Bounds")] = Field(default=3, ge=1, description="attempts")
    rate: Annotated[float | None, Option()] = Field(default=None, gt=0, description="speed; default: full speed")
    count: Annotated[int | str | None, Option(metavar="N|FILE")] = Field(default=None, description="number or file")
    form: Annotated[Literal["a", "b"], Option()] = Field(default="a", description="form")
    record: Annotated[bool, Option()] = Field(default=True, description="record it")
    quiet: Annotated[bool, Option()] = Field(default=False, description="say nothing")
    names: Annotated[list[Annotated[str, AfterValidator(_lower_case)]], Option(("--name", "-n"))] = Field(
        default_factory=list, description="name"
    )
    reset: Annotated[dict[str, Any], Option(metavar="NAME=VALUE")] = Field(default_factory=dict, description="reset")
    parts: Annotated[dict[str, float], Option(("--part",))] = Field(default_factory=dict, description="part")


class Engine(BaseModel):
    """Settings of their own within others."""

    power: Annotated[int, Option(("--engine-power",))] = Field(default=5, ge=1, description="power")
    hidden: int = Field(default=1, description="no option")


class Car(BaseModel):
    """Settings with a section."""

    engine: Annotated[Engine | None, Option(heading="Parts")] = Field(default=None, description="have an engine")


def test_a_section_has_a_flag_and_an_option_for_each_of_its_own() -> None:
    assert run(options_of(Car)) == (0, "none False\n", {})
    for words, engine in ((["--engine"], {}), (["--engine-power", 7], {"power": 7})):
        assert run(options_of(Car), *words)[2] == {"engine": engine}
    assert run(options_of(Car), "--engine-power", 7, "--engine")[2] == {"engine": {"power": 7}}
    status, output, _ = run(options_of(Car), "--engine-power", 0)
    assert (status, "greater than or equal to 1; got 0" in output) == (2, True)


class Gears(BaseModel):
    """A section, one of whose options has the name of its flag."""

    kind: Annotated[str, Option(("--gears",))] = Field(default="manual", description="kind")
    count: Annotated[int, Option(("--gears-count",))] = Field(default=5, description="count")


class Lorry(BaseModel):
    """Settings with that section."""

    gears: Annotated[Gears | None, Option(heading="Parts")] = Field(default=None, description="have gears")


def test_an_option_of_a_section_may_have_the_name_of_its_flag() -> None:
    assert run(options_of(Lorry)) == (0, "none False\n", {})
    for words, gears in ((["--gears", "other"], {"kind": "other"}), (["--gears-count", 7], {"count": 7})):
        assert run(options_of(Lorry), *words)[2] == {"gears": gears}


@dataclass(frozen=True)
class Record:
    """Settings as a dataclass.

    Attributes:
        image: Image to
            start.
        label: Label of it; default: the image's.
        colour: Its colour.
        variables: Variable that is set.
        replicas: Copies.
        other: No option.
    """

    image: Annotated[str, Option()]
    label: Annotated[str, Option()]
    colour: Annotated[Colour, Option()] = Colour.RED
    variables: Annotated[Mapping[str, str], Option(("--variable",))] = field(default_factory=dict)
    replicas: Annotated[int, Field(ge=1), Option()] = 1
    other: int = 0


def run(options: list[SettingOption], *words: object) -> tuple[int, str, dict[str, Any]]:
    """Run a command with options; return its status, its output and the settings that it was given."""
    given: dict[str, Any] = {}

    @with_settings(options)
    def command(settings: dict[str, Any], word: Annotated[str, typer.Argument()] = "none", loud: bool = False) -> None:
        """Do it."""
        given.update(settings)
        typer.echo(f"{word} {loud}")

    ended = CliRunner().invoke(command_app("command", command), list(map(str, words)), terminal_width=200)
    return ended.exit_code, ended.output, given


def test_the_command_gets_what_was_given_in_the_types_of_the_settings() -> None:
    assert run(options_of(Model)) == (0, "none False\n", {})
    words = ["a word", "--where", "there", "--tries", 5, "--rate", 0.5, "--count", 7, "--form", "b", "--no-record"]
    words += ["--quiet", "--name", "x", "-n", "y", "--reset", "size=3", "--reset", "word=big", "--part", "a=0.5"]
    status, output, given = run(options_of(Model), *words, "--loud")
    assert (status, output) == (0, "a word True\n")
    assert given == {
        "where": Path("there"),
        "tries": 5,
        "rate": 0.5,
        "count": "7",
        "form": "b",
        "record": False,
        "quiet": True,
        "names": ["x", "y"],
        "reset": {"size": 3, "word": "big"},
        "parts": {"a": 0.5},
    }
    Model(**given)


def test_a_dataclass_has_options_too_and_what_has_no_default_is_required() -> None:
    status, output, _ = run(options_of(Record))
    assert (status, "Missing option '--image'" in output) == (2, True)
    words = ["--image", "i", "--colour", "blue", "--variable", "A=b=c", "--replicas", 2]
    status, _, given = run(options_of(Record), *words)
    assert (status, given) == (0, {"image": "i", "colour": "blue", "variables": {"A": "b=c"}, "replicas": 2})


@pytest.mark.parametrize(
    ("settings", "words", "said"),
    [
        (Model, ["--tries", 0], "'--tries': expected a value greater than or equal to 1; got 0."),
        (Model, ["--rate", 0], "'--rate': expected a value greater than 0; got 0.0."),
        (Model, ["--tries", "many"], "'--tries'"),
        (Model, ["--form", "c"], "'--form'"),
        (Model, ["-n", "X"], "'--name': Expected lower case, got 'X'."),
        (Model, ["--part", "a"], "--part takes NAME=WEIGHT, as in progress=0.5; got 'a'."),
        (
            Record,
            ["--image", "i", "--replicas", 0],
            "'--replicas': expected a value greater than or equal to 1; got 0.",
        ),
        (Record, ["--image", "i", "--variable", "A"], "--variable takes NAME=VALUE"),
        (Record, ["--image", "i", "--colour", "green"], "'--colour'"),
    ],
)
def test_what_is_out_of_bounds_is_bad_usage_and_names_the_option(settings: type, words: list[Any], said: str) -> None:
    status, output, given = run(options_of(settings), *words)
    assert (status, given) == (2, {})
    assert said in output


def test_the_help_has_the_descriptions_and_the_defaults() -> None:
    output = " ".join(run(options_of(Model, {"form": "shape; default: round"}), "--help")[1].split())
    for shown in (
        "--where path Folder. [default: here]",
        "Bounds: --tries N Attempts. [default: 3]",
        "--rate NUMBER Speed. [default: full speed]",
        "--count N|FILE Number or file. --",
        "--form a|b Shape. [default: round]",
        "--record / --no-record Record it. [default: record]",
        "--quiet Say nothing. -",
        "-n, --name TEXT Name; may be given again. -",
        "--reset NAME=VALUE Reset; may be given again.",
    ):
        assert shown in output
    assert "hidden" not in output
    output = " ".join(run(options_of(Record), "--help")[1].split())
    for shown in (
        "--image TEXT Image to start. [required]",
        "--label TEXT Label of it. [default: the image's]",
        "--colour red|blue Its colour. [default: red]",
    ):
        assert shown in output


@pytest.mark.parametrize(
    "options",
    [
        lambda: options_of(TrainConfig, described_settings()),
        lambda: options_of(DeploymentSettings),
        lambda: play_options({}),
        server_options,
    ],
)
def test_every_option_of_ours_is_described(options: Callable[[], list[SettingOption]]) -> None:
    derived = options()
    assert len(derived) > 10
    for option in derived:
        assert len(option.declared.help) > 10
        assert option.name.startswith("--")


def test_both_defaults_of_a_training_are_in_its_descriptions() -> None:
    described = described_settings()
    assert described["steps"] == "optimiser steps; default: 300 for tiny, else 200"
    assert (
        described["micro_batch"]
        == "episodes in one backward pass; default: all for tiny, else chosen by model and machine"
    )
    assert described["gradient_checkpointing"].endswith("; default: off for tiny, else chosen by model and machine")
    assert described["seed"] == TrainConfig.model_fields["seed"].description
    for name, other in PRETRAINED_DEFAULTS.items():
        assert getattr(TrainConfig(environment="catch", model="a/b"), name) == other


def test_an_option_for_every_setting_of_what_is_played() -> None:
    assert {option.field for option in play_options({})} == PlaySettings.model_fields.keys() - {"environment"}
