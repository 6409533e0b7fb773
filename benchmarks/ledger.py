"""How long a ledger takes to price a release: 100 mixed releases before it, and what a reservation costs.

Usage: python benchmarks/ledger.py
"""

import tempfile
import time
from pathlib import Path

from sfumato.ledger.ledger import Ledger
from sfumato.ledger.state import Request
from sfumato.privacy.composition import Book, Charge
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import ChiSquare, FreshGaussian, FreshLaplace, Gaussian, Laplace, Response

CHEAP = Laplace(1.0, 100.0)
CAP = Guarantee(epsilon=200.0, delta=1e-3)


def mixed(count: int) -> list[Charge]:
    """Releases of six laws, all of different sizes but for the fresh ones, of which there are a few sizes."""
    laws = [
        lambda i: (0.1, 0.0, Laplace(1.0, 10 + i)),
        lambda i: (0.3, 1e-6, Gaussian(1.0, 15 + i)),
        lambda i: (0.2, 0.0, Response(0.2 + i / 1e4)),
        lambda i: (0.5, 1e-6, ChiSquare(rows=119, ratio=1 / (100 + i))),
        lambda i: (0.5, 1e-6, FreshGaussian(family="gaussian", dim_in=64, dim_out=16, radius=1.0, scale=9 + i % 4)),
        lambda i: (0.5, 1e-6, FreshLaplace(dim_out=8, radius=1.0, laplace_scale=8 + i % 4)),
    ]
    return [Charge.of(*laws[i % len(laws)](i)) for i in range(count)]


def main() -> None:
    """Print seconds: the first price in a process, with the library's import, and the next."""
    charges = mixed(100)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "b.db")
        ledger.add_dataset("people", CAP)
        requests = [
            Request("Mixed", Guarantee(epsilon=c.epsilon, delta=c.delta), c.loss, lambda _: CHEAP, 3, "{}", "memory")
            for c in charges
        ]
        begun = time.perf_counter()
        for request in requests:
            ledger.account().reserve(request)
        print(f"reserve, draw no noise: {(time.perf_counter() - begun) / 100:.2f} s each, over 100 mixed releases")
        _forget()
        begun = time.perf_counter()
        (quote,) = ledger.account().price(requests[0])
        print(f"price with 100 mixed releases before it, nothing remembered: {time.perf_counter() - begun:.2f} s")
        begun = time.perf_counter()
        ledger.account().price(requests[1])
        print(f"another price in the same process: {time.perf_counter() - begun:.2f} s")
    for total in Book(charges).totals(CAP.delta):
        print(f"  {total.bound:9} epsilon {total.epsilon:.3f} at delta {CAP.delta:g}")
    print(f"  the price: from {quote.before.epsilon:.3f} to {quote.after.epsilon:.3f} by {quote.after.bound}")


def _forget() -> None:
    from sfumato.privacy import losses  # noqa: PLC0415

    for value in vars(losses).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


if __name__ == "__main__":
    main()
