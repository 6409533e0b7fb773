"""Randomness: ChaCha20 keystreams, keyed by the operating system for noise and by a public seed for projections.

A ``Secret`` is the key of one release and never leaves the processes that make it. Each block of a release draws from
its own keystream, whose key is a pseudorandom function of the secret and of all that the noise may depend on: the
mechanism's parameters, the block's position and the block's integers. So a block that is computed again at the same
place repeats its noise, and anything else gets noise that is independent of it. Content alone would not do: two equal
blocks would share their noise and reveal it. A secret serves one release of one fixed input, of which one output is
ever shown: whoever saw two outputs under one secret could tell which blocks are equal. So every release, answer and
session draws a key of its own (``pipeline``), and takes from outside none but a testing one, which may
serve again, as audits and tests must: it protects nobody, and whatever is made with it says so.

Noise and random choices are methods of ``Words``. What a mechanism draws it draws through them, so a stream that keeps
a record (``audit.recorder``) or errs on purpose (tests) is a subclass, handed in by a subclass of ``Secret``.

Guarantee: with ideal random keys the words are uniform and independent; with ChaCha20 and BLAKE2b they are so to any
adversary that cannot break these, which makes every guarantee built on them computational.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.poly1305 import Poly1305
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.randomness import idealized, noise, private_selection, randomized_choice

_ZEROS = bytes(1 << 18)
_LIMIT = 1 << 34  # words per stream: half of what ChaCha20's 32-bit block counter allows

Context = str | int | bytes | NDArray[np.int64]


def _derive(key: bytes, label: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, key=key, person=label.ljust(16, b"\0"), digest_size=32).digest()


class Words:
    """An endless run of random 64-bit words from one key, plus further bits for any word of the run.

    Not to be shared between threads; blocks that run in parallel have streams of their own.
    """

    __slots__ = ("_cipher", "_more_key", "position")

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.ChaCha20(_derive(key, b"words", b""), bytes(16)), mode=None).encryptor()
        self._more_key = _derive(key, b"more", b"")
        self.position = 0

    def fill(self, out: NDArray[np.int64]) -> None:
        """Overwrite a contiguous array with the next words under a secret's key; no word is ever given twice."""
        if self.position + out.size > _LIMIT:
            raise ParameterError(
                f"one block may draw at most {_LIMIT} words, got {self.position + out.size}: use smaller blocks"
            )
        self.position += out.size
        target = out.data.cast("B")
        for start in range(0, len(target), len(_ZEROS)):
            piece = target[start : start + len(_ZEROS)]
            self._cipher.update_into(memoryview(_ZEROS)[: len(piece)], piece)
        if struct.pack("=H", 1) != struct.pack("<H", 1):
            out.byteswap(inplace=True)

    def draw(self, count: int) -> NDArray[np.int64]:
        """The next ``count`` words under a secret's key."""
        out = np.empty(count, np.int64)
        self.fill(out)
        return out

    def more(self, word: int, turn: int) -> int:
        """64 further bits under a secret's key for the word at a position; the same for the same (word, turn)."""
        nonce = struct.pack("<IQI", 0, word, turn)  # block counter, then the 96-bit nonce
        cipher = Cipher(algorithms.ChaCha20(self._more_key, nonce), mode=None).encryptor()
        return int.from_bytes(cipher.update(bytes(8)), "little")

    # ---- noise and choices that protect what they are given, each with the law that its module proves ----

    def laplace(self, size: int, laplace_scale: float) -> Integers:
        """By a secret's key: ``size`` independent floor(eta + 1/2), eta ~ Laplace(laplace_scale), in steps."""
        return noise.laplace(self, size, laplace_scale)

    def discrete_laplace(self, size: int, laplace_scale: float) -> Integers:
        """By a secret's key: ``size`` independent whole k, in proportion to exp(-|k| / laplace_scale)."""
        return noise.discrete_laplace(self, size, laplace_scale)

    def gaussian(self, size: int, scale: float) -> Integers:
        """By a secret's key: ``size`` independent floor(eta + 1/2), eta ~ N(0, scale^2), in lattice steps."""
        return noise.gaussian(self, size, scale)

    def respond(self, codes: Integers, categories: int, epsilon: float) -> Integers:
        """By a secret's key: randomized answers to true ``codes`` in 0 .. categories - 1.

        Each is drawn by itself; same shape.
        """
        return randomized_choice.respond(self, codes, categories, epsilon)

    def choose(self, scores: Sequence[int] | Integers, rate: float, *, bits: int = 0) -> int:
        """By a secret's key, the exponential mechanism: an index in proportion to exp(rate * score / 2^bits)."""
        return private_selection.choose(self, scores, rate, bits=bits)

    def choose_repeated(self, scores: Integers, counts: Integers, rate: float) -> int:
        """By a secret's key, the exponential mechanism over runs of equal scores: a place in the list of them all."""
        return private_selection.choose_repeated(self, scores, counts, rate)

    def flip(self, scores: Sequence[int], rate: float) -> int:
        """By a secret's key: permute-and-flip at a rate."""
        return private_selection.flip(self, scores, rate)

    def select(
        self,
        scores: Sequence[int] | Integers,
        *,
        epsilon: float,
        sensitivity: int,
        monotone: bool = False,
        method: private_selection.Method = "exponential",
    ) -> int:
        """By a secret's key: place of a score, a high one likelier.

        Guarantee: Pure(epsilon), as ``private_selection`` states.
        """
        return private_selection.select(
            self, scores, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone, method=method
        )

    # ---- draws that protect nothing by themselves ----

    def coins(self, steps: Integers, bits: int) -> Integers:
        """By a secret's key: 1 with probability exactly steps / 2^bits, else 0, each by itself; same shape."""
        return randomized_choice.coins(self, steps, bits)

    def uniform(self, size: int, count: int) -> Integers:
        """By a secret's key: integers in 0 .. count - 1, all exactly equally likely."""
        return randomized_choice.uniform(self, size, count)

    def geometric(self) -> int:
        """By a secret's key: 0, 1, 2, ... with probabilities 1/2, 1/4, 1/8, ..."""
        return randomized_choice.geometric(self)

    def normals(self, size: int) -> Floats:
        """By a secret's key: ``size`` standard normal doubles.

        They are for mechanisms that say ``numerics: idealized`` and no others.
        """
        return idealized.normals(self, size)

    def key(self) -> bytes:
        """256 bits under a secret's key, from which other streams or a generator for post-processing may be made."""
        return self.draw(4).tobytes()


class Secret:
    """The key of one release. ``protected`` is False for the testing twin, and a release made with it says so.

    Guarantee: what says that it is protected has a key of the operating system, made by ``fresh`` in this process, or
    in the one that it is a fork of. There is no constructor, nothing public of it can be set, and what arrives pickled
    is not protected, nor is a subclass, whose words may be others. Assumes that nobody reaches for what is private
    here, which Python cannot prevent.
    """

    __slots__ = ("_before", "_key", "_protected")
    _words: ClassVar[type[Words]] = Words
    _before: Callable[[], None] | None
    _key: bytes
    _protected: bool

    def __init__(self, *_: object, **__: object) -> None:
        raise ParameterError(
            "Secret takes no key: use Secret.fresh(), whose key is from the operating system, or "
            "Secret.for_testing(seed) in tests, whose key protects nobody"
        )

    @classmethod
    def _made(cls, key: bytes, *, protected: bool, before: Callable[[], None] | None = None) -> Self:
        made = cls.__new__(cls)
        made._key, made._protected, made._before = key, protected and cls is Secret, before
        return made

    def _same(self, *, protected: bool, before: Callable[[], None] | None) -> Self:
        """A secret with the same key and kind."""
        return self._made(self._key, protected=protected, before=before)

    @classmethod
    def fresh(cls) -> Self:
        """A key from the operating system. There is no way to choose it."""
        return cls._made(os.urandom(32), protected=True)

    @classmethod
    def for_testing(cls, seed: int) -> Self:
        """A repeatable key for tests. What is drawn from it protects nobody, and is marked so."""
        check.whole(0, seed=seed)
        return cls.unprotected(hashlib.blake2b(f"testing only {seed}".encode(), digest_size=32).digest())

    @classmethod
    def unprotected(cls, key: bytes) -> Self:
        """A key of one's own, for audits and for workers of a release. What is made with it is marked, as above."""
        return cls._made(key, protected=False)

    @property
    def protected(self) -> bool:
        """Whether the key is the system's, and nobody's choice."""
        return self._protected

    def twin(self) -> Self:
        """The same key, marked as a testing one: for audits, which show what they drew to nobody."""
        return self._same(protected=False, before=self._before)

    def announced(self, before: Callable[[], None]) -> Self:
        """The same key, but ``before`` is called, every time, before anything is drawn from it; it may refuse."""
        return self._same(protected=self._protected, before=before)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {'protected' if self._protected else 'for testing'}>"

    def __copy__(self) -> Self:
        """The secret itself: a second one would be the same key for a second release."""
        return self

    def __deepcopy__(self, _: object) -> Self:
        """The secret itself, as above."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """The key as workers of this release on other machines get it: announced here first, as they cannot.

        They draw from it, and can release nothing that says it is protected.
        """
        if self._before is not None:
            self._before()
        return Secret.unprotected, (self._key,)

    def words(self, *context: Context) -> Words:
        """The stream that belongs to a context: parameters, positions, and the integers that will get the noise."""
        return self._words(self._stream_key(*context))

    def _stream_key(self, *context: Context) -> bytes:
        """The key of a stream, announced before it is derived."""
        if self._before is not None:
            self._before()
        return _derive(self._key, b"context", b"".join(self._encode(part) for part in context))

    def _encode(self, part: Context) -> bytes:
        """Kind, length, content. Arrays enter by shape and by a keyed hash (Poly1305, universal under a secret key)."""
        if isinstance(part, np.ndarray):
            if part.dtype != np.int64:
                raise ParameterError(f"arrays in a context must be int64, got dtype={part.dtype}")
            shape = ",".join(map(str, part.shape)).encode()
            data = np.ascontiguousarray(part, dtype="<i8")
            hash_key = _derive(self._key, b"universal hash", b"")
            digest = Poly1305.generate_tag(hash_key, data.data.cast("B") if data.size else b"")
            return b"a" + struct.pack("<Q", len(shape)) + shape + digest
        raw = part if isinstance(part, bytes) else str(part).encode()
        kind = b"b" if isinstance(part, bytes) else b"s" if isinstance(part, str) else b"i"
        return kind + struct.pack("<Q", len(raw)) + raw


def protects(secret: Secret) -> bool:
    """Whether a secret has a key of the operating system: no subclass does, whatever it says of itself."""
    return type(secret) is Secret and secret._protected


def public_words(seed: int, *context: str | int) -> Words:
    """The words keyed by a public seed instead of a secret; the same in every version (golden vectors in the tests)."""
    check.whole(0, seed=seed)
    label = "\0".join(str(part) for part in ("sfumato projection", seed, *context))
    return Words(hashlib.blake2b(label.encode(), digest_size=32).digest())
