"""Formulas of the site as MathML, which browsers draw by themselves: no script is loaded and no font is fetched."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import SphinxError


def _mathml(node, *, block):
    try:
        return tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        raise SphinxError(f"{node.source}:{node.line}: formula {node.astext()!r}: {error}") from None


def _inline(self, node):
    self.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def _block(self, node):
    self.body.append(f'<div class="math">{_mathml(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer under the name that ``html_math_renderer`` gives."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
