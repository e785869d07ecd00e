"""The mutants of an environment, which of them are chosen, and the copies that have them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.broken_environments import ENVIRONMENT, Broken

from openenv.validation import read_source
from openenv.validation.mutants.mutating import Mutant, choose, copied, mutants_of

ALL_LINES = list(range(1, 100))


def walk(parent: Path) -> Path:
    return Broken("", "", "", []).write(parent)


def named(*operators: str) -> dict[str, list[Mutant]]:
    return {name: [Mutant(name, "env.py", line, "", f"{name} {line}") for line in range(4)] for name in operators}


def test_each_change_of_code_that_runs_is_a_mutant_once(tmp_path: Path) -> None:
    source = read_source(walk(tmp_path))
    mutants = mutants_of(source, dict.fromkeys(source.trees, ALL_LINES))
    texts = [(each.file, each.text) for found in mutants.values() for each in found]
    assert len(texts) == len(set(texts)) > 15
    assert {file for file, _ in texts} == {ENVIRONMENT}  # neither its player nor its client
    assert "the seed is always 7" in [each.change for each in mutants["fix_seed"]]


@pytest.mark.parametrize("lines", [{}, {ENVIRONMENT: [1]}])
def test_code_that_does_not_run_has_no_mutants(tmp_path: Path, lines: dict[str, Sequence[int]]) -> None:
    assert not any(mutants_of(read_source(walk(tmp_path)), lines).values())


def test_the_choice_is_spread_over_operators_and_the_seeds() -> None:
    found = named("drop_check", "off_by_one", "fix_seed")
    chosen = choose(found, 6, seed=1)
    assert [each.operator for each in chosen] == ["drop_check", "off_by_one", "fix_seed"] * 2
    assert chosen == choose(found, 6, seed=1) != choose(found, 6, seed=2)
    assert len(choose(found, None, seed=1)) == len(choose(found, 100, seed=1)) == 12


def test_a_copy_has_one_file_changed_and_is_removed(tmp_path: Path) -> None:
    source = read_source(walk(tmp_path))
    (source.folder / "outputs").mkdir()
    mutant = Mutant("drop_check", ENVIRONMENT, 1, "", "changed = True")
    with copied(source, mutant) as folder:
        assert folder.name == source.folder.name
        assert read_source(folder).texts == {**source.texts, ENVIRONMENT: "changed = True"}
        assert not (folder / "outputs").exists()
    assert not folder.parent.exists()
    assert read_source(source.folder).texts == source.texts


def test_a_package_in_a_package_is_copied_whole(tmp_path: Path) -> None:
    inner = walk(tmp_path)
    (inner.parent / "__init__.py").touch()
    (inner.parent / "shared.py").write_text("SHARED = 1")
    with copied(read_source(inner), None) as folder:
        assert (folder.parent / "shared.py").read_text() == "SHARED = 1"
