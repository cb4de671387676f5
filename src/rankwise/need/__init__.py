"""What rank given vectors need: measured."""
