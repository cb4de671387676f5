"""Figures and reports: read results, train nothing."""
