"""Noisy images of rows, that the tests of estimates share."""

import math

import numpy as np


def noise_draws(kind, scale, shape, rng):
    return rng.normal(0, scale, shape) if kind == "gaussian" else rng.laplace(0, scale / math.sqrt(2), shape)


def images(family, vectors, k, count, rng):
    """vectors @ P for ``count`` independent projections: shape (count, vectors, k)."""
    vectors = np.asarray(vectors, float)
    many, d = vectors.shape
    if family == "identity":
        return np.broadcast_to(vectors, (count, many, d))
    if family in ("gaussian", "orthonormal"):  # rotation invariant: only a triangular root of the Gram matrix matters
        root = np.linalg.qr(vectors.T)[1].T
        head = rng.normal(size=(count, root.shape[1], k))
        if family == "gaussian":
            return root @ head / math.sqrt(k)
        rest = rng.normal(size=(count, root.shape[1], d - k))
        gram = head @ head.transpose(0, 2, 1) + rest @ rest.transpose(0, 2, 1)
        return root @ np.linalg.solve(np.linalg.cholesky(gram), head) * math.sqrt(d / k)
    if family == "sparse":
        places, signs = rng.integers(0, k, (count, d)), rng.choice([-1.0, 1.0], (count, d))
        flat = (np.arange(count)[:, None] * k + places).ravel()
        sums = [np.bincount(flat, (signs * v).ravel(), count * k).reshape(count, k) for v in vectors]
        return np.stack(sums, axis=1)
    some = max(1, (1 << 22) // (k * d))
    if count > some:
        return np.concatenate([images(family, vectors, k, min(some, count - i), rng) for i in range(0, count, some)])
    faces = rng.integers(0, 2 if family == "rademacher" else 6, (count, k, d), dtype=np.int8)
    entries = 2.0 * faces - 1 if family == "rademacher" else math.sqrt(3) * ((faces == 0) - 1.0 * (faces == 1))
    return (entries @ vectors.T).transpose(0, 2, 1) / math.sqrt(k)
