"""The site: ``make docs`` builds it from this directory; every warning is an error (docs/decisions/0006)."""

import shutil
import sys
from pathlib import Path

from rankwise import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "tools"))

project = "rankwise"
author = "The rankwise maintainers"
copyright = "The rankwise maintainers, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "mathml"]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_labels = False
exclude_patterns = ["tools/**"]
# Every page says where it stands in index.md; a heading of any page can be linked to as page.md#its-words.
myst_heading_anchors = 3

# The API reference: what a module exports, in the order of the source.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False  # what torch says of every module's forward is no help
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "furo"
html_title = "rankwise"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {"navigation_with_keys": True}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

copybutton_prompt_text = "$ "  # outputs and prompts stay out of the clipboard
copybutton_only_copy_prompt_lines = True


def setup(app):
    """Measured pages are shown where readers of the site expect them; in the repository they stay in results/."""
    shutil.copytree(HERE.parent / "results", HERE / "results", dirs_exist_ok=True)
    app.connect("source-read", _place_links)


def _place_links(app, name, source):
    """Links between docs/ and results/, as they are on the site, where results/ is inside."""
    beside, inside = ("](../docs/", "](../") if name.startswith("results/") else ("](../results/", "](results/")
    source[0] = source[0].replace(beside, inside)
