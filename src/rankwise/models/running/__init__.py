"""Local models at work, watched a block at a time."""
