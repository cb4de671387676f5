"""Figures of tasks beyond the sphere, read as token sequences: in-context learning, language, images, matching."""
