"""Trained models: their files, where their heads are, and how to run them."""
