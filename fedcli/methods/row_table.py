"""A table [N, ...] that a server rule keeps with a row for each client, of which a round changes a
few.

A row that no round has changed is zeros and takes no memory. A table is never written into:
`replaced` gives another one, which shares all other rows. Rows may lie on disk between rounds
(federation/client_state.py): each is a mapping with one tensor, which is read when it is asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

ROW = "row"  # the name of the one tensor of a row


@dataclass(frozen=True, eq=False)
class RowTable(Mapping[int, Tensor]):
    """Rows that differ from zeros, by number; any other number within the shape gives zeros.

    rows: number -> the tensor of that row, under the name ROW.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device = torch.device("cpu")
    rows: Mapping[int, Mapping[str, Tensor]] = field(default_factory=dict)

    @staticmethod
    def of(table: "Tensor | RowTable") -> "RowTable":
        """A whole table by rows."""
        if isinstance(table, RowTable):
            return table
        empty = RowTable(tuple(table.shape), table.dtype, table.device)
        return empty.replaced(dict(enumerate(table)))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole table."""
        return self.dtype.itemsize * torch.Size(self.shape).numel()

    def __getitem__(self, row: int) -> Tensor:
        """A row, which must not be written into."""
        if not 0 <= row < self.shape[0]:
            raise IndexError(f"row {row} of a table of {self.shape[0]} rows")
        if row in self.rows:
            return self.rows[row][ROW]
        return torch.zeros(self.shape[1:], dtype=self.dtype, device=self.device)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.rows))

    def __len__(self) -> int:
        """The number of rows that differ from zeros."""
        return len(self.rows)

    def replaced(self, rows: Mapping[int, Tensor]) -> "RowTable":
        """The table with these rows in place of its own."""
        all_rows = dict(self.rows)
        for row, values in rows.items():
            if values.any():
                all_rows[row] = {ROW: values}
            else:
                all_rows.pop(row, None)
        return replace(self, rows=all_rows)

    def typed(self, dtype: torch.dtype) -> "RowTable":
        """The table with numbers of this type."""
        if dtype == self.dtype:
            return self
        rows = {row: {ROW: self[row].to(dtype)} for row in self.rows}
        return replace(self, dtype=dtype, rows=rows)

    def whole(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Rows `start` up to `stop`, all by default, as one tensor."""
        span = range(self.shape[0])[start:stop]
        if not span:
            return torch.zeros(0, *self.shape[1:], dtype=self.dtype)
        return torch.stack([self[row] for row in span])
