"""A server's table with a row for each client."""

import pytest
import torch
from tables_of_numbers import rows

from fedcli.methods.row_table import RowTable


def test_rows_that_were_not_replaced_are_zeros_and_take_no_memory():
    table = RowTable((3, 2), torch.uint8)
    assert table[2].tolist() == [0, 0]
    assert table[2].dtype == torch.uint8
    assert len(table) == 0
    expected = [[0, 0]] * 3
    assert table.whole().tolist() == expected
    assert (table.ndim, table.nbytes) == (2, 6)
    with pytest.raises(IndexError, match="row 3 of a table of 3 rows"):
        table[3]


def test_a_table_stays_as_it_was_when_rows_are_replaced():
    table = RowTable((3, 2), torch.int16).replaced({1: torch.tensor([1, 2], dtype=torch.int16)})
    changed = table.replaced({0: torch.tensor([5, 0], dtype=torch.int16)})
    expected = rows("0 0; 1 2; 0 0")
    assert table.whole().tolist() == expected
    expected = rows("5 0; 1 2; 0 0")
    assert changed.whole().tolist() == expected
    assert changed[1] is table[1]
    expected = rows("1 2; 0 0")
    assert changed.whole(1).tolist() == expected
    result = list(changed.replaced({1: torch.zeros(2, dtype=torch.int16)}))
    assert result == [0]  # zeros again


def test_a_table_of_another_type_has_the_same_numbers():
    table = RowTable((3, 2), torch.uint8).replaced({1: torch.tensor([255, 2], dtype=torch.uint8)})
    wider = table.typed(torch.int16)
    assert wider.whole().dtype == torch.int16
    expected = rows("0 0; 255 2; 0 0")
    assert wider.whole().tolist() == expected
    assert table.typed(torch.uint8) is table


def test_a_whole_table_by_rows_and_back():
    whole = torch.tensor(rows("0 0; 3 4; 0 1"))
    table = RowTable.of(whole)
    assert list(table) == [1, 2]
    assert torch.equal(table.whole(), whole)
    assert RowTable.of(table) is table
