"""What the heads of a trained model are: the ranks of their weights, and of their attention on texts."""
