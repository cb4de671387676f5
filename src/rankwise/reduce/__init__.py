"""Smaller heads for a trained model, and what they cost."""
