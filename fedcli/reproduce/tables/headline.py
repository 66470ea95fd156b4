"""The number of a finished cell in the main column of its recipe, beside the published one."""

from contextlib import suppress
from statistics import fmean

from ...compare.systems import Scored
from ...data import manifest
from ...errors import FedcliError
from ...scores.scores import Scores
from ..findings import Findings
from ..recipe import Recipe
from ..shape import UNITS
from ..shared import Outcome


def of_cell(recipe: Recipe, outcome: Outcome, *, published: bool = True) -> str:
    """A sentence such as "noisy ACC 61.20 %, published 63.51 ± 0.42"; "" where no column is of these scores.

    published: whether the printed number says something beside ours.
    """
    cell = outcome.cell
    with suppress(FedcliError):  # it is told where the scores are read for the table
        made = manifest.read(outcome.path, "scores")
        scored = Scored(outcome.path, made.options, Scores.of(made.body, outcome.path))
        by_column = Findings(recipe, [outcome], {outcome.path: scored}).columns(cell.row)
        known = {name: numbers for name, by_seed in by_column.items() if (numbers := by_seed.get(cell.seed))}
        printed = recipe.numbers.get(cell.row, {})
        columns = [column for column in recipe.columns if column.name in known and not column.minus]
        column = next((column for column in columns if column.name in printed), columns[0] if columns else None)
        if column is not None:
            sign, _, digits = UNITS[column.unit]
            said = f"{column.name} {fmean(known[column.name]):.{digits}f} {sign}".rstrip()
            if published and (theirs := printed.get(column.name)):
                spread = "" if theirs.std is None else f" ± {theirs.std:.{digits}f}"
                said += f", published {theirs.mean:.{digits}f}{spread}"
            return said
    return ""
