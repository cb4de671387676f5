"""What to change: need, plateau, costs, suggestions."""
