"""Exactness of the noise: filter against ball arithmetic on the same bits, boundaries, laws, and limits."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from flint import arb
from scipy import stats

from sfumato.errors import ParameterError, SfumatoError
from sfumato.numerics.balls import precision
from sfumato.randomness import noise
from sfumato.randomness.secret import Secret
from support.evidence import fits

TESTING = Secret.for_testing(3)
SCALES = [2.0**-10, 0.3, 1.0, 1000.7, 2.0**22, 2.0**31 / 3, 2.0**40]
CHUNK = noise._PAIRED  # a multiple of what Laplace draws are made in


def slow_laplace(words, count, scale):
    drawn = words.draw(count) | 1
    return [noise.exact_laplace(int(w), scale, partial(words.more, i)) for i, w in enumerate(drawn)]


def slow_gaussian(words, count, scale):
    out = []
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        pairs, first = (size + 1) // 2, words.position
        drawn = [int(w) for w in words.draw(2 * pairs) | 1]
        for sine in (False, True):
            for i in range(size - pairs if sine else pairs):
                more = partial(words.more, first + i), partial(words.more, first + pairs + i)
                out.append(noise.exact_gaussian(drawn[i], drawn[pairs + i], scale, sine, *more))
    return out


@pytest.mark.parametrize("count", [1_000_001])
@pytest.mark.parametrize(("fast", "slow"), [(noise.laplace, slow_laplace), (noise.gaussian, slow_gaussian)])
def test_a_million_draws_equal_ball_arithmetic_on_the_same_bits(fast, slow, count):
    scale = 2.0**25 / 3
    assert fast(TESTING.words("same", fast.__name__), count, scale).tolist() == slow(
        TESTING.words("same", fast.__name__), count, scale
    )


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("fast", "slow"), [(noise.laplace, slow_laplace), (noise.gaussian, slow_gaussian)])
def test_every_scale_equals_ball_arithmetic_on_the_same_bits(fast, slow, scale):
    count = CHUNK + 4001
    assert fast(TESTING.words(scale.hex()), count, scale).tolist() == slow(TESTING.words(scale.hex()), count, scale)


def boundary_words(scale, halves):
    """Words whose interval of U holds, or lies right beside, the point where eta = -scale ln U is a half-integer."""
    words = []
    for half in halves:
        with precision(300):
            place = int(((-arb(half) / arb(scale)).exp() * 2**62).floor().unique_fmpz())
        words += [2 * (place + slip) + 1 for slip in (-2, -1, 0, 1, 2) if 0 < place + slip < 2**62]
    return words


def laplace_of(words, scale, more):
    words = np.array(words, np.int64)
    out = np.empty(words.size, np.int64)
    noise.laplace_chunk(words, scale, np.empty(words.size), np.empty(words.size), out, lambda _i, turn: more(turn))
    return out.tolist()


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0**10, 2.0**22, 2.0**25 / 3, 2.0**40])
@pytest.mark.parametrize("bits", [0, 2**64 - 1])
def test_laplace_draws_forced_to_a_boundary_are_settled_by_their_further_bits(scale, bits):
    rng = np.random.default_rng(4)
    halves = [0.5, 1.5, *(math.floor(scale * x) + 0.5 for x in rng.exponential(1.5, 200))]
    words = boundary_words(scale, halves)
    words += [-w for w in words]
    expected = [noise.exact_laplace(w, scale, lambda _turn: bits) for w in words]
    assert laplace_of(words, scale, lambda _turn: bits) == expected


def test_the_further_bits_matter_where_the_interval_holds_a_boundary():
    scale, words = 2.0**22, boundary_words(2.0**22, [math.floor(2.0**22 * x) + 0.5 for x in (0.1, 0.7, 2.0)])
    low, high = (laplace_of(words, scale, lambda _turn, b=b: b) for b in (0, 2**64 - 1))
    assert [a - b for a, b in zip(low, high, strict=True)] == [0, 0, 1, 0, 0] * 3


@pytest.mark.parametrize("scale", [1.0, 2.0**22, 2.0**25 / 3, 2.0**38])
@pytest.mark.parametrize("bits", [0, 2**64 - 1])
def test_gaussian_draws_forced_to_a_boundary_are_settled_by_their_further_bits(scale, bits):
    rng = np.random.default_rng(5)
    lengths, angles = [], []
    for angle in (rng.integers(2**60, 2**63 - 1, 40) | 1).tolist():
        for wave in ("cos", "sin"):
            with precision(300):
                turn = arb(angle) / 2**63
                value = abs(getattr(turn, f"{wave}_pi")())
                half = math.floor(scale * abs(rng.normal()) * float(value)) + 0.5
                place = int(((-((arb(half) / arb(scale) / value) ** 2) / 2).exp() * 2**62).floor().unique_fmpz())
            for slip in (-1, 0, 1):
                if 0 < place + slip < 2**62:  # U = 0 with zeros for ever has no rounding
                    lengths.append(2 * (place + slip) + 1)
                    angles.append(angle)
    words, out = np.array(lengths + angles, np.int64), np.empty(2 * len(lengths), np.int64)
    noise.gaussian_chunk(words, scale, np.empty((4, len(lengths))), out, lambda _i, _turn: bits)
    further = (lambda _turn: bits, lambda _turn: bits)
    pairs = list(zip(lengths, angles, strict=True))
    expected = [noise.exact_gaussian(u, v, scale, sine, *further) for sine in (False, True) for u, v in pairs]
    assert out.tolist() == expected


@pytest.mark.parametrize("word", [1, -1, 3, 2**63 - 1, -(2**63) + 1, 2**43 + 1, 2**42 - 1])
@pytest.mark.parametrize("scale", SCALES)
def test_the_ends_of_the_uniform_are_settled_by_ball_arithmetic(word, scale):
    more = partial(TESTING.words("ends").more, 0)
    assert laplace_of([word], scale, more) == [noise.exact_laplace(word, scale, more)]
    out = np.empty(2, np.int64)
    for angle in (word, 2**61 + 1):
        noise.gaussian_chunk(np.array([word, angle]), scale, np.empty((4, 1)), out, lambda _i, turn: more(turn))
        assert out.tolist() == [noise.exact_gaussian(word, angle, scale, s, more, more) for s in (False, True)]


def test_the_lowest_interval_reaches_as_far_as_the_law_does():
    """The first 62 bits zero is not the end of the tail: further bits decide how far out it goes."""
    near = noise.exact_laplace(1, 1.0, lambda _turn: 2**64 - 1)
    far = noise.exact_laplace(1, 1.0, lambda turn: 0 if turn < 3 else 2**63)
    assert near == round(62 * math.log(2))
    assert far == round((62 + 3 * 64 + 1) * math.log(2))


def test_the_filter_would_be_wrong_without_its_radius(monkeypatch):
    """The power arm of the boundary tests: trust the doubles blindly and they are caught."""
    scale, rng = 2.0**22, np.random.default_rng(4)
    words = boundary_words(scale, [math.floor(scale * x) + 0.5 for x in rng.exponential(1.5, 300)])
    expected = [noise.exact_laplace(w, scale, lambda _turn: 0) for w in words]
    monkeypatch.setattr(noise, "_RADIUS", 0.0)
    monkeypatch.setattr(noise, "_laplace_radius", lambda words, _eta, _b: np.zeros(words.size))
    assert laplace_of(words, scale, lambda _turn: 0) != expected


@pytest.mark.parametrize("scale", [3.0, 2.0**22])
@pytest.mark.parametrize(("draw", "law"), [(noise.laplace, stats.laplace), (noise.gaussian, stats.norm)])
def test_ten_million_draws_follow_their_law_and_no_other(draw, law, scale):
    draws = draw(TESTING.words("law", scale.hex()), 10_000_000, scale)
    assert fits(draws, lambda x: law.cdf(x / scale))
    for wrong in (0.99, 1.01):
        assert not fits(draws, lambda x, wrong=wrong: law.cdf(x / (scale * wrong)))
    other = stats.norm if law is stats.laplace else stats.laplace
    assert not fits(draws, lambda x: other.cdf(x / scale))


def test_tiny_scales_give_the_rounded_law():
    draws = noise.laplace(TESTING.words("tiny"), 1_000_000, 0.2)
    share = np.mean(draws != 0)
    expected = math.exp(-0.5 / 0.2)
    assert abs(share - expected) < 6.2 * math.sqrt(expected / draws.size)
    assert (noise.gaussian(TESTING.words("tiny"), 100_000, 2.0**-10) == 0).all()


def test_neighbouring_draws_and_twins_are_independent():
    for draw in (noise.laplace, noise.gaussian):
        draws = draw(TESTING.words("pairs"), 4_000_000, 2.0**22) / 2.0**22
        half = CHUNK // 2
        blocks = draws[: draws.size // CHUNK * CHUNK].reshape(-1, 2, half)
        for a, b in ((draws[:-1], draws[1:]), (blocks[:, 0].ravel(), blocks[:, 1].ravel())):
            for f in (np.asarray, np.square, np.abs):
                x, y = f(a) - f(a).mean(), f(b) - f(b).mean()
                assert abs(np.mean(x * y) / (x.std() * y.std())) < 6.2 / math.sqrt(x.size)
    same = np.square(blocks[:, 0].ravel())
    assert abs(np.corrcoef(same, same * 0.99 + 0.01)[0, 1]) > 0.9  # the measure sees dependence


def test_draws_do_not_depend_on_threads():
    def job(i):
        return noise.laplace(TESTING.words("t", i), 50_000, 2.0**38), noise.gaussian(
            TESTING.words("g", i), 50_000, 2.0**38
        )

    alone = [job(i) for i in range(6)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(job, range(6)))
    assert all((a == b).all() for x, y in zip(alone, together, strict=True) for a, b in zip(x, y, strict=True))
    assert threading.active_count() < 20


def test_the_precision_of_other_code_cannot_change_a_draw():
    expected = noise.laplace(TESTING.words("prec"), 20_000, 2.0**40)
    with precision(2):
        assert (noise.laplace(TESTING.words("prec"), 20_000, 2.0**40) == expected).all()


def test_draws_never_change():
    """Golden vectors: projections of the gaussian and orthonormal families rest on them."""
    assert noise.laplace(TESTING.words("golden"), 4, 1e6).tolist() == GOLDEN["laplace"]
    assert noise.gaussian(TESTING.words("golden"), 5, 1e6).tolist() == GOLDEN["gaussian"]


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**-11, 2.0**41, "1", None])
@pytest.mark.parametrize("draw", [noise.laplace, noise.gaussian])
def test_scales_out_of_range_are_refused_and_nothing_is_drawn(draw, scale):
    words = TESTING.words("none")
    with pytest.raises(ParameterError, match="scale"):
        draw(words, 5, scale)
    assert words.position == 0


def test_single_precision_scales_are_taken_as_they_are():
    scale = np.float32(2.0**40 / 3)
    single, double = (noise.laplace(TESTING.words("f32"), 5000, s) for s in (scale, float(scale)))
    assert (single == double).all()


def test_sizes_are_whole_numbers():
    words = TESTING.words("none")
    assert noise.laplace(words, 0, 1.0).size == 0
    assert noise.gaussian(words, 1, 1.0).size == 1
    with pytest.raises(ParameterError, match="size=-1"):
        noise.gaussian(words, -1, 1.0)


def test_a_machine_with_a_poor_logarithm_is_refused(monkeypatch):
    accurate = np.log
    noise._measure.cache_clear()
    monkeypatch.setattr(np, "log", lambda x: accurate(x) * (1 + 2.0**-48))
    with pytest.raises(SfumatoError, match=r"numpy\.log"):
        noise.check_platform()
    monkeypatch.undo()
    noise.check_platform()


def test_memory_beyond_the_output_is_small():
    import tracemalloc  # noqa: PLC0415

    words = TESTING.words("memory")
    for draw in (noise.laplace, noise.gaussian):
        draw(words, 10, 1.0)
        tracemalloc.start()
        out = draw(words, 4_000_000, 2.0**22)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak - out.nbytes < 16 << 20


GOLDEN = {"laplace": [1437019, -207239, -1483042, 288833], "gaussian": [-1195505, -560454, 1090157, 1202001, -316810]}


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1000.7, 2.0**22, 2.0**31 / 3, 2.0**40])
@pytest.mark.parametrize(("fast", "slow"), [(noise.laplace, slow_laplace), (noise.gaussian, slow_gaussian)])
def test_three_million_draws_at_each_scale_equal_ball_arithmetic(fast, slow, scale):
    count = 3_000_000
    assert fast(TESTING.words("long"), count, scale).tolist() == slow(TESTING.words("long"), count, scale)
