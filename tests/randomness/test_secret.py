import copy
import dataclasses
import os
import pickle

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release, release_to
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import idealized, noise, private_selection, randomized_choice
from sfumato.randomness.secret import Secret, Words, protects, public_words
from sfumato.tables.schema import Schema
from support.spending import ROWS, SCHEMA, SKETCH, made, pure, states
from support.twins import always, secret_of

TESTING = Secret.for_testing(7)
BLOCK = np.arange(12, dtype=np.int64).reshape(3, 4)


def first(words, count=4):
    return words.draw(count).tolist()


def test_the_keystream_is_chacha20_of_rfc_8439():
    # RFC 8439, section 2.3.2 in a form we can reach: key derivation apart, the cipher must be the standard one.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms  # noqa: PLC0415

    key, nonce = bytes(range(32)), bytes.fromhex("01000000000000090000004a00000000")
    stream = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor().update(bytes(16))
    assert stream.hex() == "10f1e7e4d13b5915500fdd1fa32071c4"


def test_streams_never_change():
    """Golden vectors: a change here changes every published projection."""
    assert first(public_words(0, "gaussian", 3, 2)) == GOLDEN["public"]
    assert first(TESTING.words("sketch", 5, BLOCK)) == GOLDEN["testing"]
    assert public_words(0, "gaussian", 3, 2).more(9, 1) == GOLDEN["more"]


def test_equal_contexts_repeat_and_different_ones_do_not():
    contexts = [
        ("sketch", 0, BLOCK),
        ("sketch", 1, BLOCK),
        ("other", 0, BLOCK),
        ("sketch", 0, BLOCK + 1),
        ("sketch", 0, BLOCK.reshape(4, 3)),
        ("sketch", 0, BLOCK.T),
        ("sketch", "0", BLOCK),
        ("sketch0", BLOCK),
        ("sketch", b"0", BLOCK),
        ("sketch", 0, BLOCK[:0]),
        ("sketch", 0),
    ]
    streams = [first(TESTING.words(*c)) for c in contexts]
    assert streams == [first(TESTING.words(*c)) for c in contexts]
    assert len({tuple(s) for s in streams}) == len(contexts)


def test_one_changed_cell_changes_the_stream():
    big = np.zeros((50, 1000), np.int64)
    before = first(TESTING.words("p", 0, big))
    big[49, 999] = 1
    assert first(TESTING.words("p", 0, big)) != before


@pytest.mark.parametrize("array", [np.array([0.2, 0.9]), np.array([2**63], np.uint64), np.array([1], np.int32)])
def test_arrays_of_other_types_are_refused_lest_they_collide(array):
    with pytest.raises(ParameterError, match="int64"):
        TESTING.words(array)


def test_layout_in_memory_does_not_matter():
    assert first(TESTING.words(BLOCK)) == first(TESTING.words(np.asfortranarray(BLOCK)))


def test_fresh_secrets_differ_and_hide_their_key(monkeypatch):
    monkeypatch.setattr("sfumato.randomness.secret.os", os)  # keys of the operating system, unlike in other tests
    one, two = Secret.fresh(), Secret.fresh()
    assert first(one.words("a")) != first(two.words("a"))
    assert one.protected
    assert not TESTING.protected
    assert one._key.hex() not in repr(one)
    assert repr(one._key) not in repr(one)


KEY = bytes(32)


@pytest.mark.parametrize(
    "trick",
    [
        lambda: Secret(KEY),
        lambda: Secret(KEY, protected=True),
        lambda: Secret(_key=KEY, protected=True),
        Secret,
        lambda: type(TESTING)(KEY, True),
        lambda: dataclasses.replace(TESTING, protected=True),
        lambda: copy.replace(TESTING, protected=True),
        lambda: setattr(Secret.for_testing(1), "protected", True),
        lambda: Secret.unprotected(KEY, protected=True),
        lambda: Secret.for_testing(1, protected=True),
        lambda: Secret.fresh(KEY),
    ],
)
def test_nobody_makes_a_protected_secret_of_a_chosen_key(trick):
    with pytest.raises((ParameterError, TypeError, AttributeError)):
        trick()


def test_a_subclass_is_never_protected_since_its_words_may_be_others():
    for broken in (secret_of(always(0)), type(secret_of(always(0))).fresh()):
        assert not broken.protected
        assert not broken.announced(lambda: None).protected
        assert broken.announced(lambda: None).twin().words("a").laplace(3, 9.0).tolist() == [0, 0, 0]
    assert Secret.fresh().protected


@pytest.mark.parametrize("made", [Secret.fresh(), TESTING, TESTING.announced(lambda: None), Secret.unprotected(KEY)])
def test_what_travels_is_never_protected_where_it_arrives(made):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        arrived = pickle.loads(pickle.dumps(made, protocol))  # noqa: S301 - our own
        assert not arrived.protected
        assert first(arrived.words("a")) == first(made.words("a"))
    assert not made.twin().protected


def test_a_copy_of_a_secret_is_the_secret():
    made = Secret.fresh()
    assert copy.copy(made) is made
    assert copy.deepcopy([made])[0] is made


def test_a_release_takes_no_key_that_protects_so_that_no_key_serves_twice(ledger, tmp_path):
    """Equal data under one key give equal output, so two releases of one key show equality with certainty."""
    key = Secret.fresh()
    for given in (key, copy.copy(key), copy.deepcopy(key), key.announced(lambda: None), KEY):
        with pytest.raises(ParameterError, match="draws a key of its own, which serves no other"):
            made(ledger, secret=given)
        terms = {"schema": SCHEMA, "mechanism": SKETCH, "guarantee": pure(1.0), "ledger": ledger}
        with pytest.raises(ParameterError, match="draws a key of its own, which serves no other"):
            release_to(tmp_path / "r", ROWS, secret=given, **terms)
    assert states(ledger) == []
    assert not (tmp_path / "r").exists()


def test_equal_releases_have_keys_of_their_own_and_a_testing_one_may_serve_again(ledger):
    one, two = made(ledger), made(ledger)
    assert one.manifest["protected"]
    assert two.manifest["protected"]
    assert (one.array() != two.array()).all()
    again = [made(None, secret=TESTING) for _ in range(2)]  # as audits and tests must, and marked
    assert (again[0].array() == again[1].array()).all()
    assert not again[0].manifest["protected"]
    arrived = made(None, secret=pickle.loads(pickle.dumps(Secret.fresh())))  # noqa: S301 - our own
    assert not arrived.manifest["protected"]


def test_no_word_is_given_twice_however_it_is_asked_for():
    whole = first(TESTING.words("a"), 100_000)
    words = TESTING.words("a")
    pieces = [first(words, n) for n in (1, 7, 50_000, 49_992)]
    assert [w for piece in pieces for w in piece] == whole
    assert words.position == 100_000
    assert len(set(whole)) == len(whole)


def test_further_bits_belong_to_their_word_and_turn():
    words = TESTING.words("a")
    further = {(w, t): words.more(w, t) for w in range(20) for t in range(3)}
    words.draw(1000)
    assert further == {key: words.more(*key) for key in further}
    assert len(set(further.values())) == len(further)


def test_words_look_uniform():
    draws = TESTING.words("u").draw(1 << 18)
    bits = np.unpackbits(draws.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 6.5 * 0.5 / np.sqrt(draws.size)


def test_a_stream_that_would_wrap_is_refused():
    words = Words(bytes(32))
    words.position = 1 << 34
    with pytest.raises(ParameterError, match="smaller blocks"):
        words.draw(1)


@pytest.mark.parametrize("seed", [-1, 1.5, "x", True, None])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(ParameterError, match="seed"):
        public_words(seed)
    with pytest.raises(ParameterError, match="seed"):
        Secret.for_testing(seed)


GOLDEN = {
    "public": [6163136742691032891, 626615968609377121, 184507745398460908, -5230520539313236828],
    "testing": [4761066795379471230, -8477907846247807846, -1076946110570550354, -3119929813219085059],
    "more": 14286574629669725105,
}


# ---- draws as methods ------------------------------------------------------------------------------------------------

CODES, SCORES = np.arange(40) % 3, [5, 9, 2, 9, 7]
TERMS = {"epsilon": 0.7, "sensitivity": 2}
DRAWS = {
    "laplace": (lambda w: w.laplace(9, 30.0), lambda w: noise.laplace(w, 9, 30.0)),
    "gaussian": (lambda w: w.gaussian(9, 30.0), lambda w: noise.gaussian(w, 9, 30.0)),
    "respond": (lambda w: w.respond(CODES, 3, 0.5), lambda w: randomized_choice.respond(w, CODES, 3, 0.5)),
    "choose": (lambda w: w.choose(SCORES, 0.2), lambda w: private_selection.choose(w, SCORES, 0.2)),
    "choose, bits": (
        lambda w: w.choose(SCORES, 2.0, bits=4),
        lambda w: private_selection.choose(w, SCORES, 2.0, bits=4),
    ),
    "flip": (lambda w: w.flip(SCORES, 0.2), lambda w: private_selection.flip(w, SCORES, 0.2)),
    "select": (lambda w: w.select(SCORES, **TERMS), lambda w: private_selection.exponential(w, SCORES, **TERMS)),
    "select, one way": (
        lambda w: w.select(SCORES, **TERMS, monotone=True, method="noisy-max"),
        lambda w: private_selection.noisy_max(w, SCORES, **TERMS, monotone=True),
    ),
    "select, flips": (
        lambda w: w.select(SCORES, **TERMS, method="permute-and-flip"),
        lambda w: private_selection.permute_and_flip(w, SCORES, **TERMS),
    ),
    "coins": (lambda w: w.coins(CODES, 2), lambda w: randomized_choice.coins(w, CODES, 2)),
    "uniform": (lambda w: w.uniform(9, 6), lambda w: randomized_choice.uniform(w, 9, 6)),
    "geometric": (lambda w: w.geometric(), randomized_choice.geometric),
    "normals": (lambda w: w.normals(7), lambda w: idealized.normals(w, 7)),
    "key": (lambda w: w.key(), lambda w: w.draw(4).tobytes()),
}


@pytest.mark.parametrize("name", DRAWS)
def test_every_draw_is_that_of_its_module(name):
    """From the same words, as many of them, on many streams."""
    method, function = DRAWS[name]
    for place in range(40):
        one, two = TESTING.words(name, place), TESTING.words(name, place)
        assert np.array_equal(method(one), function(two))
        assert one.position == two.position > 0


class Liar(Secret):
    """Says that it is a testing one when it is first asked, and a protected one ever after."""

    __slots__ = ()
    asked = 0

    @property
    def protected(self):
        Liar.asked += 1
        return Liar.asked > 1


def test_what_a_subclass_says_of_itself_does_not_make_a_release_protected():
    assert not protects(Liar.for_testing(1))
    assert protects(Secret.fresh())
    published = release(
        np.zeros((2, 1)),
        schema=Schema.reals(1, low=0, high=1),
        mechanism=Sketch(dimension=1),
        guarantee=Guarantee(epsilon=1.0),
        secret=Liar.for_testing(1),
    )
    assert published.manifest["protected"] is False
