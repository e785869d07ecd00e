"""Context of an exploit probe."""

import ast

from openenv.validation.semantic import program_probes, text_probes
from openenv.validation.semantic.fields import FieldRole, OpenField
from openenv.validation.semantic.probing import ProbeContext

CODE = "def square(x):\n    return x * x\n\nclass Cube:\n    pass\n"


def context(role: FieldRole, answer: object, prompt: str = "", *others: object) -> ProbeContext:
    return ProbeContext(OpenField("submit", "answer", role, {}, {}), prompt, answer, others)


def test_a_program_has_the_functions_of_the_oracles() -> None:
    tree = ast.parse(context(FieldRole.CODE, CODE).program("return None"))
    assert [node.name for node in tree.body if isinstance(node, ast.FunctionDef)] == ["square", "Cube"]


def test_a_program_without_functions_prints() -> None:
    assert context(FieldRole.CODE, "print(3)").program("return 0") == "value = 0\nprint(value)\n"


def test_all_programs_are_valid() -> None:
    families = (
        text_probes.nothing,
        text_probes.nonsense,
        text_probes.to_judge,
        text_probes.as_object,
        program_probes.forged,
        program_probes.tampering,
        program_probes.hidden,
    )
    for answer in (CODE, "result = 3\nprint(result)"):
        for family in families:
            for probe in family(context(FieldRole.CODE, answer, "square(7) == 49")):
                ast.parse(probe.value)


def test_results_in_the_prompt_are_examples() -> None:
    assert context(FieldRole.CODE, CODE, "square(7) == 49 and square(0) -> 0").examples == ["49", "0"]


def test_wrong_answers_are_of_the_answers_kind() -> None:
    assert context(FieldRole.ANSWER, "42").wrong_answers == ["39", "40", "41", "43", "44", "45"]
    assert context(FieldRole.ANSWER, "Vltava", "Which river?", "Danube", "vltava").wrong_answers == [
        "Danube",
        "Which",
        "river",
    ]


def test_an_answer_is_right_in_any_form() -> None:
    assert context(FieldRole.ANSWER, "1.0").is_right(" 1 ")
    assert not context(FieldRole.ANSWER, "Vltava").is_right("")
