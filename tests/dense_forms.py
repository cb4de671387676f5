"""QK and OV of a layer's heads as one would write them down."""

import numpy as np

from rankwise.audit.spectra import with_amplitude, with_typical_latent


def dense_forms(weights):
    """QK and OV of every head as matrices in float64."""
    ref = weights.ref
    query_map, key_map = weights.query_down, weights.key_down
    if query_map is not None:
        query_map = with_typical_latent(query_map, 0)
    if key_map is not None:
        key_map = with_typical_latent(key_map, ref.latent.rope)

    def rows(block, down):
        block = block.astype(np.float64)
        return block if down is None else block @ down.astype(np.float64)

    q, k = rows(weights.q, query_map), rows(with_amplitude(weights.k, ref.rope), key_map)
    o, v = rows(weights.o, None), rows(weights.v, key_map)
    heads = range(ref.heads)
    return [q[h].T @ k[h // ref.group] for h in heads], [o[h].T @ v[h // ref.group] for h in heads]
