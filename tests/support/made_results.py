"""Results of a reproduction, made up."""

from fedcli.reproduction import record

UNMARKED = record.Marked(best=[], doubtful=[], tested=False)


def a_cell(mean, std=None, **about):
    return record.ResultCell(mean=mean, std=std, runs=1, per_run=[], **about)


def made(column, cells, scale="paper", seeds=(0,), **about):
    """Results of one column, a row per cell."""
    none = {"label": None, "rule": None, "command": "", "holes": {}, "warnings": [], "scores": {}}
    rows = []
    for name, cell in cells.items():
        rows.append(record.ResultRow(name=name, cells={column.name: cell}, **none))
    fixed = {
        "recipe": "r",
        "title": "",
        "paper": "",
        "at": "last5",
        "spread": "pooled",
        "reference": "",
    }
    fixed |= {"marks": {column.name: UNMARKED}}
    return record.Results(
        **fixed | about, scale=scale, seeds=list(seeds), columns=[column], rows=rows
    )
