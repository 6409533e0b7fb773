"""The stages of a sketch on one core, each beside what bounds it, measured in the same run.

Usage: make bench. A bound is what the machine does when it does nothing else: copy memory, multiply matrices, make a
keystream, take logarithms, write a file.
"""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ground import seconds
from sfumato.fileformat.writer import write_part
from sfumato.files.open_table import open_table
from sfumato.numerics.lattice import InputGrid
from sfumato.projection.projection import Projection
from sfumato.randomness.secret import Secret
from sfumato.tables.schema import Schema
from timed import write_data

ROWS, COLUMNS, DIMENSION = 1 << 18, 100, 32
BLOCK = 20_971


def keystream(count: int) -> Any:
    """As many bytes of ChaCha20, into one buffer."""
    cipher = Cipher(algorithms.ChaCha20(bytes(32), bytes(16)), mode=None).encryptor()
    zeros, out = bytes(1 << 18), bytearray(1 << 18)
    for _ in range(count >> 18):
        cipher.update_into(zeros, out)
    return out


def read(path: Path) -> None:
    """All blocks of a file."""
    for _ in open_table(path).blocks([f"c{j}" for j in range(COLUMNS)], BLOCK):
        pass


def show(name: str, unit: str, amount: float, times: list[float], bound: str, limit: float | None = None) -> None:
    """A stage's rate beside its bound's: the amount of work over each of the two times, in billions."""
    rate, best = amount / times[0] / 1e9, limit or amount / times[1] / 1e9
    each = times[0] / ROWS * 1e9
    print(f"  {name:10} {each:7.0f} ns a row   {rate:6.2f} {unit}   {bound:26} {best:6.2f}   {rate / best:4.0%}")


def write_file(path: Path, data: NDArray[np.float32]) -> None:
    """The same bytes, as they are."""
    with path.open("wb") as file:
        file.write(data.tobytes())


def main(folder: Path) -> None:
    """One line for each stage."""
    path = write_data(folder, ROWS, COLUMNS)
    schema, grid = Schema.read(folder / f"{COLUMNS}.toml"), InputGrid(np.zeros(COLUMNS), np.ones(COLUMNS))
    batch = next(open_table(path).blocks([f"c{j}" for j in range(COLUMNS)], BLOCK))
    block, share = schema.encode(batch), ROWS / BLOCK
    projection = Projection(family="gaussian", dim_in=COLUMNS, dim_out=DIMENSION).on_lattice(1.0)
    dense = np.random.default_rng(1).standard_normal((1024, 1024))
    source, target = np.ones(1 << 25), np.empty(1 << 25)
    numbers, secret = np.random.default_rng(1).random((DIMENSION, ROWS), dtype=np.float32), Secret.fresh()
    draws = ROWS * DIMENSION
    print(f"Stages of a sketch, {COLUMNS} float32 columns -> {DIMENSION}, one core; bound: what it is, and its rate")
    copy, multiply, logs, read_all, encode, product, laplace, words, stream, write, raw = seconds(
        partial(np.copyto, target, source),
        partial(np.matmul, dense, dense),
        partial(np.log, source, out=target),
        partial(read, path),
        partial(schema.encode, batch),
        partial(projection.apply, grid, block),
        lambda: secret.words("bench").laplace(draws, 2.0**22),
        lambda: secret.words("bench").draw(draws),
        partial(keystream, draws * 8),
        lambda: write_part(folder / "o.parquet", [f"z{i}" for i in range(DIMENSION)], [(numbers, None)]),
        partial(write_file, folder / "raw", numbers),
    )
    memory, flops = source.nbytes / copy / 1e9, 2 * 1024**3 / multiply / 1e9
    show("read", "GB/s", ROWS * COLUMNS * 4, [read_all], "copying memory, GB/s", memory)
    show("encode", "GB/s", ROWS * COLUMNS * 8, [encode * share], "copying memory, GB/s", memory)
    show("product", "GF/s", 2 * ROWS * COLUMNS * DIMENSION, [product * share], "product of matrices, GF/s", flops)
    show("words", "GB/s", draws * 8, [words, stream], "ChaCha20 alone, GB/s")
    show("noise", "G/s", draws, [laplace], "logarithms alone, G/s", source.size / logs / 1e9)
    show("write", "GB/s", numbers.nbytes, [write, raw], "the bytes to a file, GB/s")


if __name__ == "__main__":
    pa.set_cpu_count(1)
    with threadpool_limits(1), tempfile.TemporaryDirectory() as name:
        main(Path(name))
