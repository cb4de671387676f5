"""What to do: for a model as it was trained, by measurement; for the next training, as hypotheses."""
