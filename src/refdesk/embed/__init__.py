"""Embedders: the shipped static model, and others behind the same port."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def normalised(rows: NDArray[np.floating] | NDArray[np.integer]) -> NDArray[np.float32]:
    """The rows scaled to unit length, with the same bits for any batch and on any platform; a zero row stays zero."""
    values = rows.astype(np.float64)
    lengths = np.sqrt(_row_sums(values * values))
    lengths[lengths == 0.0] = 1.0
    return (values / lengths[:, None]).astype(np.float32)


def _row_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # Halving adds whole columns in a fixed tree of additions; a library's own sum may order them by CPU.
    while values.shape[1] > 1:
        half = values.shape[1] // 2
        odd = values[:, 2 * half :]
        values = values[:, :half] + values[:, half : 2 * half]
        if odd.shape[1]:
            values[:, :1] += odd
    return values[:, 0]
