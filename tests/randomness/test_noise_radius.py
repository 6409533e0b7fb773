"""The error radius of the noise's filter: that of the proof, and what is settled by it."""

import math

import numpy as np
import pytest
from mpmath import mp

from sfumato.errors import SfumatoError
from sfumato.randomness import noise

RADIUS_WORDS = [9, 2**10 + 1, 2**43 + 1, 2**50 + 1, 2**60 + 1, 2**62 + 1, 2**63 - 2**50 + 1, 2**63 - 2**30 + 1]


@pytest.mark.parametrize("scale", [0.3, 2.0**22, 2.0**31 / 3])
@pytest.mark.parametrize("word", [sign * w for w in RADIUS_WORDS for sign in (1, -1)])
def test_the_error_radii_are_those_of_the_proof(word, scale):
    """Summed up to 30 digits, term by term as the module's text states them: never less, and hardly more."""
    words = np.array([word], np.int64)
    with mp.workdps(30):
        u = abs(mp.mpf(word)) / mp.mpf(2) ** 63
        log, s = abs(mp.log(u)), mp.mpf(scale)
        shared = mp.mpf(2) ** -52 + mp.mpf(2) ** -62 / u
        laplace = s * (log * mp.mpf(2) ** -48 + shared)
        found = noise._laplace_radius(words, np.array([float(s * log)]), scale)[0]
        assert laplace * (1 - 1e-9) <= found <= laplace * 1.02
        length, e = s * mp.sqrt(2 * log), log * mp.mpf(2) ** -49 + shared
        own = s * (mp.sqrt(2) * e / mp.sqrt(log) + mp.mpf(2) ** -51 * mp.sqrt(2 * log))
        for wave in (1.0, -0.5, 0.0):
            eta = length * wave
            truth = own + length * mp.mpf(2) ** -48 + abs(eta) * mp.mpf(2) ** -53
            found = noise._gaussian_radius(words, np.array([float(eta)]), np.array([float(length)]), scale)[0]
            assert truth * (1 - 1e-9) <= found <= truth * 1.02


def test_nothing_is_promised_at_the_ends_of_the_uniform():
    """Below 2^-60, where the interval's width counts, and for Gaussian draws where the logarithm is next to nothing."""
    words = np.array([7, -7, 9, -9, 2**63 - 1], np.int64)
    eta = np.array([1.0])
    found = [noise._laplace_radius(words[i : i + 1], eta, 1.0)[0] for i in range(5)]
    assert np.isinf(found).tolist() == [True, True, False, False, False]
    lengths = np.sqrt(2 * np.array([43.0, 43.0, 42.0, 42.0, 2.0**-41]))
    found = noise._gaussian_radius(words, np.zeros(5), lengths, 1.0)
    assert np.isinf(found).tolist() == [True, True, False, False, True]
    edge = noise._gaussian_radius(words[2:3], np.zeros(1), np.sqrt([2 * 2.0**-39]), 1.0)
    assert np.isfinite(edge).all()


def test_the_radius_of_whole_chunks_is_above_that_of_each_of_their_draws():
    """Inside the easy region one constant stands for all radii."""
    u = np.geomspace(math.exp(-noise._EASY_LOG), 1 - 2.0**-20, 4001)
    words = (u * 2.0**63).astype(np.int64) | 1
    length = np.sqrt(-2 * np.log(u))
    assert (noise._laplace_radius(words, -np.log(u), 1.0) < noise._RADIUS).all()
    plain = (length > noise._EASY_LENGTH[0]) & (length < noise._EASY_LENGTH[1])
    assert plain.sum() > 3900
    assert (noise._gaussian_radius(words, length, length, 1.0)[plain] < noise._RADIUS).all()
    assert noise._EASY_LENGTH[1] <= math.sqrt(2 * noise._EASY_LOG)
    assert noise._RADIUS <= 2.0**-41
    assert noise._EASY_LENGTH[0] >= 2.0**-9  # below it, radii grow beyond the constant


def test_draws_within_their_radius_of_a_half_integer_are_not_settled():
    gap, radius = np.array([0.5 - 2.0**-20, 0.4, 0.5, 0.0]), np.array([2.0**-20, 2.0**-20, 0.0, math.inf])
    assert noise._unsettled(gap, radius).tolist() == [True, False, True, True]


@pytest.mark.parametrize("name", ["log", "sin", "cos"])
@pytest.mark.parametrize(("error", "refused"), [(2.0**-49.5, True), (2.0**-51.5, False)])
def test_a_machine_is_refused_at_half_of_what_the_proof_assumes(monkeypatch, name, error, refused):
    accurate = getattr(np, name)
    noise._measure.cache_clear()
    monkeypatch.setattr(np, name, lambda x: accurate(x) * (1 + error) if name == "log" else accurate(x) + error)
    if refused:
        with pytest.raises(SfumatoError, match=rf"numpy\.{name}"):
            noise.check_platform()
    else:
        noise.check_platform()
    monkeypatch.undo()
    noise._measure.cache_clear()


def in_doubles(words, scale):
    """Draws before they are rounded, as the chunk computes them: cosines, then sines."""
    lengths, angles = scale * np.sqrt(-2 * np.log(words[0] * 2.0**-63)), words[1] * (math.pi * 2.0**-63)
    return np.concatenate([lengths * np.cos(angles), lengths * np.sin(angles)])


def test_a_chunk_with_one_short_length_is_not_settled_as_a_whole():
    """Near u = 1 the length's error is larger than the constant that settles chunks, though its neighbour is easy."""
    scale, misled = 2.0**35, 0
    for k in range(1, 200):
        words = np.array([[2**63 - (k << 24) - 511, 2**61 + 1], [2**59 + (k << 53) + 1, 2**59 + (4 << 53) + 1]])
        eta, out = in_doubles(words, scale), np.empty(4, np.int64)
        noise.gaussian_chunk(words.ravel(), scale, np.empty((4, 2)), out, lambda _i, _turn: 0)
        zeros = (lambda _turn: 0, lambda _turn: 0)
        pairs = words.T.tolist()
        truth = [noise.exact_gaussian(u, v, scale, sine, *zeros) for sine in (False, True) for u, v in pairs]
        assert out.tolist() == truth
        seems_easy = np.abs(eta - np.rint(eta)).max() < 0.5 - noise._RADIUS * scale
        misled += bool(seems_easy and np.rint(eta).tolist() != truth)
    assert misled > 5  # the constant alone would have settled these, and wrongly


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("centre", [-math.pi / 2, 0.0, math.pi / 2])
def test_a_machine_is_refused_that_errs_on_one_side_of_one_zero_or_peak(monkeypatch, name, side, centre):
    accurate = getattr(np, name)

    def erring(x):
        beside = side * (np.asarray(x) - centre)
        return accurate(x) + np.where((beside > 0) & (beside < 2.0**-10), 2.0**-49, 0.0)

    noise._measure.cache_clear()
    monkeypatch.setattr(np, name, erring)
    with pytest.raises(SfumatoError, match=rf"numpy\.{name}"):
        noise.check_platform()
    monkeypatch.undo()
    noise._measure.cache_clear()
