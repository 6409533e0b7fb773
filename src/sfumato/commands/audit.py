"""``sfumato audit``: try to refute every mechanism, and fail if one is refuted."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.commands.console.options import command, show

if TYPE_CHECKING:
    from sfumato.audit.cases import Line


def add_audit(commands: Any) -> None:
    """``sfumato audit``: its options."""
    parser = command(
        commands,
        "audit",
        "Attack all mechanisms and try to refute their guarantees. The exit code is 1 if a guarantee is refuted.",
        "sfumato audit --quick",
        _audit,
    )
    parser.add_argument("--quick", action="store_true", help="Fewer samples: about half a minute.")
    parser.add_argument(
        "--seconds", type=float, metavar="SECONDS", help="Time for the whole table (default 300; with --quick, 30)."
    )
    parser.add_argument("--seed", type=int, metavar="SEED", help="Seed, to repeat an audit (default: random).")


def _audit(options: Any) -> int:
    from sfumato import check
    from sfumato.audit.cases import CASES, EPSILONS, FULL, QUICK, suite
    from sfumato.commands.console.progress import LINE

    effort = replace(QUICK if options.quick else FULL, seed=options.seed)
    if options.seconds is not None:
        check.positive(seconds=options.seconds)
        effort = replace(effort, seconds=options.seconds)
    lines: list[Line] = []
    if not options.json:
        print(_HEAD, flush=True)
    for line in suite(effort, progress=LINE.count(None, "samples")):
        lines.append(line)
        if not options.json:
            print(_text(line), flush=True)
    failed = [line for line in lines if not line.finding.passed]
    if options.json:
        facts = {"confidence": effort.confidence, "failed": len(failed), "audits": [line.to_dict() for line in lines]}
        print(json.dumps(facts, indent=2))
    else:
        show(_verdict(len(lines), len(failed), effort.confidence))
    assert len(lines) == len(CASES) * len(EPSILONS)
    return 1 if failed else 0


_HEAD = f"{'mechanism':36}{'epsilon':>8}{'delta':>8}{'bound':>8}{'reached':>9}  {'method':9}{'samples':>11}  verdict"


def _text(line: "Line") -> str:
    found = line.finding
    numbers = f"{found.epsilon:8g}{found.delta:8g}{found.bound.epsilon:8.3f}{found.share:9.0%}"
    return f"{line.name:36}{numbers}  {found.method:9}{found.bound.samples:11,}  {found.verdict}"


def _verdict(audits: int, failed: int, confidence: float) -> str:
    if failed:
        return f"{failed} of {audits} audits FAILED. Do not release with these mechanisms."
    return (
        f"No guarantee was refuted in {audits} audits. The probability of a false alarm in the whole table is at most "
        f"{1 - confidence:.2g}. A bound is what these attacks reached. It does not prove that no attack reaches more."
    )
