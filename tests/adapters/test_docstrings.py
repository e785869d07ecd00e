"""What is read out of docstrings that others wrote."""

from hypothesis import given
from hypothesis import strategies as st

from openenv.adapters.docstrings import first_paragraph, section


def test_a_section_ends_at_the_next_heading() -> None:
    doc = "# Game\nIntro\n### Action  space\n\n- 0: up\n\n- 1: down\n#### More\nno"
    assert section(doc, "Action  Space") == "- 0: up\n\n- 1: down"
    assert section(doc, "More") == "no"
    assert section(doc, "Rewards") == ""


def test_the_first_paragraph_is_text() -> None:
    assert (
        first_paragraph("# Go\n\n```{figure}\n```\n\n| a | b |\n\nSee <a href='..'>there</a>.\n\nStones.") == "Stones."
    )
    assert first_paragraph("") == ""


@given(st.text(), st.text())
def test_nothing_that_somebody_wrote_fails(doc: str, heading: str) -> None:
    assert section(doc, heading) in doc.replace("\r", "\n") or section(doc, heading)
    assert "\n" not in first_paragraph(doc)
