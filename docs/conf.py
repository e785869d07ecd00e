"""How Sphinx builds the site: `make docs`."""

import sys
from pathlib import Path

from openenv import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "OpenEnv"
author = copyright = "the OpenEnv authors"  # noqa: A001  # Sphinx reads this name
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "commands",
    "signatures",
    "source_pages",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# What pydantic puts on every model is described by pydantic.
autodoc_default_options = {"members": True, "exclude-members": "model_config, model_post_init"}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "furo"
html_title = f"OpenEnv {release}"
html_static_path = ["_static"]
html_css_files = ["openenv.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2f5f9e", "color-brand-content": "#2f5f9e"},
    "dark_css_variables": {"color-brand-primary": "#8db4e8", "color-brand-content": "#8db4e8"},
}
