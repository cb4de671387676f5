"""Figures that need no training: closed forms and quadrature, each beside its simulation.

Every file offers ``compute(settings, say)``, plain data out of plain settings, and ``draw(data, stem)``, which writes
``stem``.png and ``stem``.svg; ``PRESETS`` names the settings, ``reproduce`` does both and hands back a table.
"""
