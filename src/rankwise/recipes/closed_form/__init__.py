"""Figures that need no training: closed forms and quadrature, each beside its simulation."""
