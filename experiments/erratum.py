"""The form of an entry on the page of errata: what is said, what is true, why, and numbers that show it."""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from page import Experiment, Part, Setting


@dataclass(frozen=True, slots=True)
class Erratum:
    """One statement that is not true as it stands.

    place : where it stands. says : what is said. holds : what is true. why : a proof or a reason, short.
    show  : tables that demonstrate it.
    """

    name: str
    title: str
    place: str
    says: str
    holds: str
    why: str
    show: Callable[[Setting], Iterable[Part]]

    def run(self, setting: Setting) -> Iterator[Part]:
        """The entry."""
        yield filled(f"**It says** ({self.place}): {self.says}")
        yield filled(f"**It is**: {self.holds}")
        yield filled(f"**Because**: {self.why}")
        yield from (filled(part) if isinstance(part, str) else part for part in self.show(setting))

    @property
    def experiment(self) -> Experiment:
        """As the runner takes it."""
        return Experiment(f"errata-{self.name}", self.title, self.run)


def filled(text: str) -> str:
    """A paragraph in lines of a page's width."""
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)
