"""One kind of case, played as often as it was asked for: its draws, its findings, its line in the tally."""

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .process import Ended


@dataclass
class Play:
    """The cases of one test.

    Attributes:
        name: of the test with its parameters; draws follow from it, the seed and the case's number.
        tally: a file of JSON lines to which findings and, at the end, the number of cases are added; None for none.
    """

    name: str
    count: int
    seed: int
    tally: Path | None = None
    case: int = 0
    played: int = 0
    findings: list[str] = field(default_factory=list)  # a line or two each

    def draw(self) -> np.random.Generator:
        """The random numbers of the case at hand."""
        return np.random.default_rng([self.seed, self.case, zlib.crc32(self.name.encode())])

    def cases(self) -> Iterator[np.random.Generator]:
        """The random numbers of every case; fails after the last one where any had a finding."""
        for case in range(self.count):
            self.case = case
            self.played = self.played + 1
            yield self.draw()
        self._end()

    def some(self, items: Sequence) -> Iterator:
        """Yields as many of the items, in a random order; fails after the last one where any had a finding."""
        self.case = -1 & 0xFFFF
        order = self.draw().permutation(len(items))[: self.count]
        for case in order.tolist():
            self.case = case
            self.played = self.played + 1
            yield items[case]
        self._end()

    def judge(self, ended: Ended, wrong: list[str], note: str) -> None:
        """Keep what is wrong with the end of a case; note: what was done to it."""
        if wrong:
            text = f"case {self.case}: {note}\n  $ {ended.line}\n  {', '.join(wrong)} (exit code {ended.code})\n"
            self.findings.append(text + f"  {ended.err.strip()[-600:]}")
            self._tell(
                {
                    "name": self.name,
                    "seed": self.seed,
                    "case": self.case,
                    "finding": self.findings[-1],
                }
            )

    def note(self, wrong: list[str], note: str) -> None:
        """Notes the faults of a case that is no command."""
        if wrong:
            self.findings.append(f"case {self.case}: {note}\n  {', '.join(wrong)}")
            self._tell(
                {
                    "name": self.name,
                    "seed": self.seed,
                    "case": self.case,
                    "finding": self.findings[-1],
                }
            )

    def _end(self) -> None:
        line = {
            "name": self.name,
            "seed": self.seed,
            "cases": self.played,
            "findings": len(self.findings),
        }
        self._tell(line)
        assert not self.findings, f"{len(self.findings)} of {self.played}\n" + "\n".join(
            self.findings
        )

    def _tell(self, line: dict) -> None:
        if self.tally:
            with self.tally.open("a", encoding="utf-8", errors="surrogateescape") as file:
                file.write(json.dumps(line) + "\n")
