"""The page's modules as one script."""

import re

from openenv.viewer.html_file.script import page_script


def test_each_module_comes_after_those_that_it_imports() -> None:
    script = page_script()
    places = {found[1]: found.start() for found in re.finditer(r'^modules\["([^"]+)"\] = ', script, re.MULTILINE)}
    assert {"app.js", "run.js", "compare.js", "results.js", "traces/view.js", "vendor/preact.mjs"} <= places.keys()
    for found in re.finditer(r' = modules\["([^"]+)"\];', script):
        assert places[found[1]] < found.start()


def test_nothing_is_imported_or_exported_any_more() -> None:
    assert not re.search(r'^(?:import|export)\b|from\s*"\.', page_script(), re.MULTILINE)
