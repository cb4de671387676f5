"""Models on disk, opened without running anything of theirs."""
