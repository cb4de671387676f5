"""What a trained model has: its weights, head by head, read without running any of its code."""
