"""How to set heads and ranks: small causal models trained on one's own text at equal budget."""
