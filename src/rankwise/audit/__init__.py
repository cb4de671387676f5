"""What a user has on disk, measured against the theory: vectors, trained models, and what to change."""
