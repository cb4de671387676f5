"""Figures that need no training: closed forms and quadrature, each beside its simulation.

Every file is a ``ComputedFigure``: plain numbers out of plain settings, a picture, a table and a reading of them.
"""
