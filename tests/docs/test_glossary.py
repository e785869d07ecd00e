"""``docs/glossary.md`` says what the code says."""

import importlib

import pytest
from tests.ceilings import questions
from tests.support.glossary import UNUSED, UNUSED_ELSEWHERE, rows, unused_words, uses, words_of
from tests.support.source import PACKAGE, Module, modules

SERVER = "core/env_server"
COUNTED_IN_CEILINGS = {"core"}
# Words of the server's table that are the field's elsewhere: the Hugging Face Hub, seats of a game, plans of a fleet.
OWN_MEANING = {"hub", "plan", "seat"}
# Public names, and messages that users and tests quote, of these modules.
PUBLIC = {
    ("train/forms/tool_form.py", "taken"),
    ("train/rollout/model_actor.py", "room"),
    ("train/rollout/play.py", "room"),
    ("train/rollout/sessions.py", "ask"),
    ("train/run/grpo.py", "room"),
    ("train/run/training.py", "go on"),
    ("train/trl/rollout_function.py", "tell"),
    ("train/trl/spec_tasks.py", "ask"),
}
OTHERS = sorted({module.path.partition("/")[0] for module in modules()} - COUNTED_IN_CEILINGS)


def test_each_folder_of_the_server_has_its_row() -> None:
    folders = {folder.parent.name for folder in (PACKAGE / SERVER).glob("*/__init__.py")}
    assert [row[0].strip("`") for row in rows("The folders of the server")] != []
    assert {row[0].strip("`") for row in rows("The folders of the server")} == folders


@pytest.mark.parametrize(("heading", "package"), [("The words", "core"), ("The words of training", "train")])
def test_each_word_is_in_the_code(heading: str, package: str) -> None:
    words = rows(heading)
    assert words
    for _, _, where in words:
        module, _, name = where.strip("`").rpartition(".")
        assert hasattr(importlib.import_module(f"openenv.{package}.{module}"), name), where


def test_no_word_has_two_rows() -> None:
    words = [word for heading in ("The words", "The words of training") for word, *_ in rows(heading)]
    assert len(words) == len(set(words))


# The first of these reads the whole package.
@pytest.mark.level("process")
@pytest.mark.parametrize(
    ("heading", "folders"),
    list(zip(UNUSED, [(SERVER, "core/wire", "core/schema"), ("core/client",), ("train",)], strict=True)),
)
def test_words_that_are_not_used_are_not_used(heading: str, folders: tuple[str, ...]) -> None:
    unused = unused_words(heading)
    assert unused
    for folder in folders:
        inside = [module for module in modules() if module.path.startswith(f"{folder}/")]
        assert inside, f"there is no folder {folder}"
        found = [
            (module.path, name)
            for module in inside
            for name in module.names
            if any(uses(word, words_of(name)) for word in unused)
        ]
        assert not found


def texts_of(module: Module) -> list[str]:
    """Return what a module names, and what a person reads of it."""
    return [*module.names, *(text.text for text in (*module.docstrings, *module.messages))]


@pytest.mark.level("socket")  # it reads every module
@pytest.mark.parametrize("package", OTHERS)
def test_other_packages_have_none_of_the_words_that_are_not_used(package: str) -> None:
    unused = {word for heading in UNUSED_ELSEWHERE for word in unused_words(heading)} - OWN_MEANING
    inside = [module for module in modules() if module.path.partition("/")[0] == package]
    assert inside
    found = [
        (module.path, word, text)
        for module in inside
        for text in texts_of(module)
        for word in unused
        if uses(word, words_of(text)) and (module.path, word) not in PUBLIC
    ]
    assert not found
    assert not [(module.path, name) for module in inside for name in module.names if name.startswith("_MOST_")]


@pytest.mark.parametrize("package", OTHERS)
def test_docstrings_of_other_packages_begin_with_a_noun_or_a_verb(package: str) -> None:
    locations = [location for figure in questions().values() for location in figure.locations]
    assert not [location for location in locations if location.partition("/")[0].partition(":")[0] == package]
