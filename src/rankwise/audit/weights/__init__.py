"""What a model's weights say about its heads."""
