"""The documentation site: Sphinx reads the Markdown pages where they lie (`make site`).

The source folder is the root of the repository, so that a link works on the site as it does in
the repository. A link that leads nowhere is a warning, and `make site` makes warnings errors.
"""

from __future__ import annotations

project = "martlet"
copyright = "the martlet authors. Apache-2.0"  # Sphinx wants this name

extensions = ["myst_parser"]
root_doc = "doc/index"
include_patterns = ["*.md", "doc/**"]
exclude_patterns = ["**/.*", "build", "var"]

# Headings of the first four levels can be linked to, by the same names as on the usual forges.
myst_heading_anchors = 4
# A page may go from # to ###; links are what matters here.
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = "martlet"
html_show_sphinx = False
html_copy_source = False
