"""Every measured number of the documents is in the register, docs/claims.toml, and is what its record or test says."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import development
import sfumato as sf
from sfumato.aggregates.asked import prepare
from sfumato.engines.spark import _FAN, _MOST_BLOCKS
from sfumato.intervals import additive_noise
from sfumato.mechanisms.responses import response_loss
from sfumato.privacy.calibration import calibrate, least_level
from sfumato.queries.questions import parse_question
from sfumato.tables.blocks import _CELLS_PER_BYTE, _MOST_ROWS, MEMORY
from support import claims
from support.claims import Register, measured

ROOT = Path(__file__).parents[2]
BENCHMARKS, FIGURES = ((ROOT / "benchmarks" / name).read_text() for name in ("results.md", "figures.md"))
SCALE = " ".join((ROOT / "docs" / "scale.md").read_text().split())
REGISTER = Register()


def test_every_measured_number_has_an_entry_that_holds():
    assert Register().wrong() == []


def changed(page, text, register=None):
    """A checkout in which one page is another; with another register it has that page alone."""
    made = Register(text=register)
    made.pages = {page: text} if register else REGISTER.pages | {page: text}
    return made


def test_only_these_claims_have_neither_a_record_nor_a_test():
    found = {claim.id for claim in REGISTER.claims if claim.unrecorded}
    assert found == {"large-graphs", "development-of-centring-and-dimensions"}
    assert {made.id for made in REGISTER.made if made.by_hand} == {"judges-by-hand"}


# ---- it can fail -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sentence",
    [
        "A release takes 3.7 s on a laptop.",
        "It is 14 times as fast as the others.",
        "It is twice as fast as the others.",
        "Intervals cover 93% of the truth.",
        "The AUC of the attack is .61 at most.",
        "We tried 12,345 kills and lost nothing.",
        "A million releases were made without a fault.",
        "Of these mutants 33 of 49 were caught.",
        "It took 40 minutes on one core.",
        "Peaks are 120, 150 and 210 MiB.",
        "| rows | seconds |\n|---|---|\n| many | 77 |",
        "The slope is 1.02a for small a.",
        "At 5e7 rows it needs more.",
    ],
)
@pytest.mark.parametrize("page", ["README.md", "SECURITY.md", "docs/scale.md", "docs/mathematics.md"])
def test_a_new_measured_number_is_seen(page, sentence):
    found = set(changed(page, f"{REGISTER.pages[page]}\n\n{sentence}\n").uncovered()) - set(REGISTER.uncovered())
    assert found
    assert all(fault.startswith(f"{page}:") for fault in found)


@pytest.mark.parametrize(
    "sentence",
    [
        "See section 12, and Dwork 2006.",
        "Run `make bench`, which takes `3.7 s`.",
        "At ε = 0.5, δ = 1e-6 and k = 128 all 95% intervals hold.",
        "Steps are 2^-20 of the width, and n/4096 of them.",
        "## 3.7 times as fast",
        "```\n3.7 s\n```",
        "    $ it takes 3.7 s",
        "[here](a/3.7.md) <!-- 3.7 s -->",
    ],
)
def test_what_nobody_measured_needs_no_entry(sentence):
    assert measured(f"Words.\n\n{sentence}\n\nWords.\n") == []


def other(text, number):
    """The text with the last digit of a number changed, before its exponent if it has one; or another word for it."""
    mantissa, e, exponent = number.shown.partition("e")
    new = mantissa[:-1] + str((int(mantissa[-1]) + 5) % 10) + e + exponent if mantissa[-1:].isdigit() else "nine"
    return text[: number.start] + new + text[number.start + len(number.shown) :]


@pytest.mark.parametrize("claim", REGISTER.claims, ids=lambda claim: claim.id)
def test_a_number_that_changes_on_its_page_alone_is_seen(claim):
    page, quote = claim.pages[0], claims.listed(claim.quote)[-1]
    number = REGISTER._numbers(page, quote)[-1]
    assert any(claim.id in fault for fault in changed(page, other(REGISTER.pages[page], number)).misquoted())


@pytest.mark.parametrize(
    "claim", [c for c in REGISTER.claims if not (c.held or c.unrecorded)], ids=lambda claim: claim.id
)
def test_a_number_that_changes_on_its_page_and_in_the_register_does_not_stand_in_its_record(claim):
    page, quote = claim.pages[0], claims.listed(claim.quote)[-1]
    text = REGISTER.pages[page]
    start, end = claims.spans(quote, text)[0]
    number = REGISTER._numbers(page, quote)[-1]
    forged = other(text, number)
    made = changed(page, forged)
    entry = claims.Claim(
        **{
            **{name: getattr(claim, name) for name in ("id", "claim", "command", "test", "record", "lines")},
            "pages": [page],
            "quote": forged[start : end + len(forged) - len(text)],
        }
    )
    assert list(made.unheld(entry))


ENTRY = """
[[claim]]
id = "speed"
claim = "It is fast."
pages = ["docs/tour.md"]
quote = "The second core gains 1.67 times."
command = "make bench"
record = "benchmarks/results.md"
lines = "two cores over one"
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "", None),
        ("make bench", "make benches", "no target of make: make benches"),
        ("make bench", "python benchmarks/none.py", "no such script"),
        ("make bench", "sfumato estimates", "no command"),
        ("make bench", "curl it", "not a target of make"),
        ("benchmarks/results.md", "benchmarks/none.md", "nothing in benchmarks/none.md matches"),
        ("two cores over one", "the smallest", "1.67 does not stand in"),
        ('lines = "two cores over one"', "", "a record needs the lines"),
        ("gains 1.67", "gains 1.68", "docs/tour.md does not say"),
        ('"docs/tour.md"', '"NONE.md"', "NONE.md does not say"),
        ("The second core gains 1.67 times.", "The second", "no measured number in"),
        ('record = "benchmarks/results.md"\nlines = "two cores over one"', "", "either a record or a test"),
        ('record = "benchmarks/results.md"', 'test = "tests/test_none.py::test_it"', "no such test"),
        ('record = "benchmarks/results.md"', 'test = "tests/randomness/test_noise.py::test_it"', "no such test"),
        ('record = "benchmarks/results.md"', 'test = "tests/support/claims.py::measured"', "no such test"),
        (ENTRY, ENTRY + ENTRY, "the id is used twice"),
    ],
)
def test_an_entry_that_does_not_hold_is_seen(old, new, told):
    made = changed("docs/tour.md", REGISTER.pages["docs/tour.md"], ENTRY.replace(old, new, 1))
    found = [fault for fault in made.wrong() if "has no entry" not in fault]
    assert found == [] if told is None else any(told in fault for fault in found)


@pytest.mark.parametrize(
    ("constants", "told"),
    [
        ("sfumato.planning.candidates:_GOOD", None),
        ("sfumato.tables.blocks:MEMORY", "is none of"),
        ("sfumato.tables.blocks:NONE", "no such constant"),
    ],
)
def test_a_constant_is_compared_with_the_code(constants, told):
    entry = f'[[stated]]\npage = "docs/choosing.md"\nquote = "the error to 25%"\nwhy = "a"\nconstants = "{constants}"'
    made = Register(text=entry)
    found = list(made.untrue(made.stated[0]))
    assert found == [] if told is None else told in found[0]


MARKED = "Words.\n\n<!-- made by: make figures -->\n\n| a |\n|---|\n| 3.7 |\n\n<!-- end -->\n\nWords.\n"
MADE = '[[made]]\nid = "a"\nclaim = "b"\npage = "SECURITY.md"\ncommand = "make figures"\nsections = true\n'


def test_a_section_that_a_command_makes_is_covered_by_one_entry():
    assert changed("SECURITY.md", MARKED, MADE).wrong() == []


@pytest.mark.parametrize(
    ("page", "entry", "told"),
    [
        (MARKED, "made = []", "a section made by 'make figures' has no entry"),
        (MARKED.replace("make figures", "make others"), MADE, "a section made by 'make others' has no entry"),
        (MARKED, MADE.replace("make figures", "make others"), "no target of make: make others"),
        ("Words.\n", MADE, "no section is marked as made by 'make figures'"),
        (MARKED.replace("<!-- end -->", ""), MADE, "does not end with <!-- end -->"),
        (MARKED + "It takes 3.8 s.\n", MADE, "3.8 has no entry"),
        (MARKED, MADE.replace("SECURITY.md", "docs/none.md"), "there is no page docs/none.md"),
    ],
)
def test_a_section_without_its_entry_and_an_entry_without_its_section_are_seen(page, entry, told):
    assert any(told in fault for fault in changed("SECURITY.md", page, entry).wrong())


def test_a_page_that_a_command_makes_needs_one_entry():
    (fault,) = changed("docs/new.md", "It takes 3.7 s.\n", MADE).uncovered()
    assert fault.startswith("docs/new.md:1: 3.7 has no entry")
    whole = MADE.replace("SECURITY.md", "docs/new.md").replace("sections = true", "")
    assert list(changed("docs/new.md", "It takes 3.7 s.\n", whole).uncovered()) == []


@pytest.mark.parametrize(
    ("shown", "recorded", "stands"),
    [
        ("2.7 times", 2.66, True),
        ("2.7 times", 2.64, False),
        ("92% of", 0.924, True),
        ("92% of", 92.4, True),
        ("92% of", 92.6, False),
        ("7e-14 at", 6.5e-14, True),
        ("7e-14 at", 6.4e-14, False),
        ("0.45 GiB", 0.45 * 2**30, True),
        ("four million rows", 4_000_000, True),
        ("four million rows", 4_600_000, False),
        ("1,164 times", 1164, True),
        ("1,164 times", 1165, False),
        (".80 of", 0.8, True),
    ],
)
def test_numbers_are_compared_as_they_are_rounded(shown, recorded, stands):
    (number,) = claims.numbers(shown)
    assert number.rounds(recorded) == stands


# ---- what entries of the register name -------------------------------------------------------------------------------


def section(page, title):
    """What a part printed, as a record keeps it."""
    return re.search(rf"^## {title}\n.*?```\n(.*?)```", page, re.MULTILINE | re.DOTALL)[1]


def test_computed_figures_come_out_again(capsys):
    spec = importlib.util.spec_from_file_location("computed", ROOT / "benchmarks" / "computed.py")
    computed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(computed)
    computed.main()
    assert capsys.readouterr().out == section(FIGURES, "Computed")


def stages():
    """Nanoseconds for a row, and the share of its bound, of each stage of a sketch."""
    lines = section(BENCHMARKS, "Stages of a sketch, and what bounds them").splitlines()[1:]
    return {line.split()[0]: (int(line.split()[1]), int(line.split()[-1].rstrip("%"))) for line in lines}


def test_the_stages_of_scale_are_those_of_the_benchmark():
    moved = {
        "read | {} ns | copying {} bytes": 100 * 4,
        "encode | {} ns | writing {} bytes": 100 * 8,
        "exact product | {} ns | {:,} operations at the rate of a large product of matrices": 2 * 100 * 32,
        "random words | {} ns (part of the noise) | ChaCha20 alone, {} bytes": 32 * 8,
        "noise | {} ns | {} logarithms": 32,
        "write, hash | {} ns | writing {} bytes to a file": 32 * 4,
    }
    assert len(stages()) == len(moved)
    for (line, count), (taken, reached) in zip(moved.items(), stages().values(), strict=True):
        assert f"| {line.format(taken, count)} | {reached}% |" in SCALE


def test_the_arithmetic_of_scale_follows_from_the_stages():
    row = sum(taken for name, (taken, _) in stages().items() if name != "words") * 1e-9
    task = _MOST_BLOCKS * min(_MOST_ROWS, int(MEMORY * _CELLS_PER_BYTE) // 100)
    tasks = round(1e12 / task, -4)
    total = 16 * 100 * 101 // 2
    minutes, days = 1e9 * row / 60, 1e12 * row / 86400
    parts = [tasks * total / _FAN**level / 1e6 for level in range(3)]
    for said in (
        f"{100 * 4} bytes in and {32 * 4} out, {2 * 100 * 32:,} floating-point operations, and {32 * 8} random bytes",
        f"needs {row * 1e6:.1f} µs for all of it",
        f"| 10⁹ | 400 GB | 128 GB | 256 GB | {minutes:.0f} min | {1e6 * row:.1f} s | {400 / 100:.1f} s |",
        f"| 10¹² | 400 TB | 128 TB | 256 TB | {days:.0f} days | {minutes:.0f} min | {4000 / 60:.0f} min |",
        f"seventeen million such rows and {task * row:.0f} seconds, so 10¹² rows are {tasks:,.0f} tasks",
        f"with its digest: {tasks:,.0f} lines. Sums meet in totals of 16 bytes",
        f"for p = 100, {total / 1e3:.0f} kB a task, {parts[0] / 1e3:.1f} GB for {tasks:,.0f} tasks",
        f"{parts[1]:.0f} MB after one level of the tree, {parts[2]:.1f} MB after two",
    ):
        assert said in SCALE
    assert round(task / 1e6) == 17


def test_intervals_of_inner_products_were_as_quick_as_the_mathematics_says():
    found = re.findall(r"law and level (\S+) s, then (\S+) µs a pair", section(FIGURES, "Timings"))
    assert len(found) == 3
    assert all(float(each) < 1 < float(first) + 1 for first, each in found)


def test_a_sample_of_the_development_sets_comes_out_again():
    """One of them, which is small: the gain of the spectrum over linear shrinking, about both centres."""
    shown = re.search(r"diabetes \+(\S+) ± (\S+), \+(\S+) ± ([\d.]+);", REGISTER.pages["docs/mathematics.md"])
    gains, halves = (np.array(list(map(float, shown.groups()[i::2]))) for i in (0, 1))
    task, promise = dict(development._bundled())["diabetes"](), sf.Guarantee(epsilon=1.0, delta=1e-6)
    for gain, half, centring in zip(gains, halves, ("private", "public"), strict=True):
        spectrum, linear = (
            [development.score(task, i, promise, noise="gaussian", centring=centring, shrink=shrink) for i in range(10)]
            for shrink in ("spectrum", "linear")
        )
        assert abs(np.mean(np.subtract(spectrum, linear)) - gain) < half


def test_a_count_errs_as_the_page_on_questions_says():
    for epsilon in (0.01, 0.1, 0.5):
        assert additive_noise.counted(0.0, 1 / epsilon).standard_error * epsilon == pytest.approx(1.41, rel=0.02)


def test_gaussian_noise_is_better_for_as_many_aggregates_as_the_page_on_questions_says():
    columns = [sf.Integer(f"x{place}", 0, 100) for place in range(12)]
    schema = sf.Schema([*columns, sf.Category("city", ("Bern", "Basel"))])

    def errors(count, by, **terms):
        question = parse_question(", ".join(f"mean(x{place})" for place in range(count)) + by, schema)
        return prepare(question, sf.Guarantee(epsilon=0.5, **terms)).spending.scales[0].scale

    page = (ROOT / "docs" / "queries.md").read_text()
    assert "with `--delta 1e-6` for about ten or more, or five or\n  more in groups under `replace`" in page
    for by, few, many in (("", 5, 10), (" by city", 3, 5)):
        for count, better in ((few, False), (many, True)):
            laplace, gaussian = errors(count, by) * 2**0.5, errors(count, by, delta=1e-6)
            assert (gaussian < laplace) == better


def test_protecting_twenty_columns_costs_twenty_times_the_noise():
    def noise(**promise):
        guarantee = sf.Guarantee(**{"epsilon": 1.0, "unit": "record", **promise})
        made = sf.Sketch().prepare(sf.Schema.reals(20, low=0, high=1), guarantee)
        return made.scale(calibrate(made, guarantee).level) * made.unit

    one = noise(unit="attribute")
    for promise in ({}, {"change": sf.Change.l1(20.0)}, {"unit": "attribute", "epsilon": 1 / 20}):
        assert noise(**promise) == pytest.approx(20 * one, rel=1e-4)


def test_flags_may_have_four_times_the_pure_epsilon():
    level = least_level(lambda x: response_loss(1 / x, (2,) * 300), 1.0, 1e-6, start=300.0)
    assert 1 / level == pytest.approx(0.0137, abs=5e-5)
    assert round(300 / level) == 4
