"""What a trained model has: its weights, its attention on real text, and what it can do without."""
