"""Table of the goldens: what makes each, and what of it may change on purpose."""

from tests.goldens.golden import Golden

_VIEWER = "what a route answers beside what it answers now, if the page reads it; no value may go or get another name."
_TRACES = "what a reader adds to an episode; what a file of an earlier version holds is read as it was."
_TRAINING = (
    "nothing where the code that trains is only rearranged; otherwise metrics may be added, and figures change with "
    "another order of random draws, another loss or other defaults, as long as the whole run is as good."
)


def _training(name: str) -> Golden:
    """Return the golden of a training by the name of its constant."""
    run = f"tests.goldens.training:{name}"
    return Golden(f"{run}.make", _TRAINING, recorded_by=f"{run}.record", compared_by=f"{run}.differences")


GOLDENS = {
    "commands": Golden(
        made_by="tests.goldens.commands:help_of_commands",
        may_change="texts, headings and the order of options; an option or argument that goes, or gets another default "
        "or type, breaks what users have in their scripts, and is named in CHANGELOG.md.",
    ),
    "names": Golden(
        made_by="tests.goldens.names:names_of_packages",
        may_change="names may be added; a name may go only from a package that no page of the docs and no program of "
        "others imports it from.",
    ),
    "traces": Golden(made_by="tests.goldens.trace_files:episodes_of_files", may_change=_TRACES),
    "viewer-run": Golden(made_by="tests.goldens.viewer:answers_of_run", may_change=_VIEWER),
    "viewer-evaluation": Golden(made_by="tests.goldens.viewer:answers_of_evaluation", may_change=_VIEWER),
    "viewer-collection": Golden(made_by="tests.goldens.viewer:answers_of_collection", may_change=_VIEWER),
    "viewer-comparison": Golden(made_by="tests.goldens.viewer:answers_of_comparison", may_change=_VIEWER),
    "report": Golden(
        made_by="tests.goldens.viewer:report_page",
        may_change="words and looks of the page; its figures may not.",
    ),
    "training-catch": _training("CATCH"),
    "training-scaffold": _training("SCAFFOLD"),
    "training-examples": _training("EXAMPLES"),
    "training-two-environments": _training("TWO_ENVIRONMENTS"),
    "training-chat-model": _training("CHAT_MODEL"),
}
"""Goldens by name; the file of each is ``stored/NAME.json``."""
