"""How ``make docs`` builds the site. The source is the whole checkout, so that links are those of the repository."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "sfumato"
author = "The sfumato authors"
html_title = "sfumato"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "docstrings", "offline"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/*.md"]
exclude_patterns = [".*", "site", "src", "tests", "dist", "demo-output", "reproduced", "playground"]  # not even walked

myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
maximum_signature_line_length = 88

# Blocks of commands are copied without their prompts and without what they print.
copybutton_selector = ":not(.highlight-text) > div.highlight > pre"  # what is printed has no button
copybutton_prompt_text = "$ "
copybutton_here_doc_delimiter = "END"
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["sfumato.css"]
html_extra_path = ["_root"]  # the index.html that leads to this one
html_copy_source = False
html_show_search_summary = False  # a summary is fetched, which browsers refuse for files
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1b6ca8", "color-brand-content": "#1b6ca8"},
    "dark_css_variables": {"color-brand-primary": "#7fbce6", "color-brand-content": "#7fbce6"},
}
