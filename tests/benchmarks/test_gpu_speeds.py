"""The pages on GPUs say what was measured."""

import gpu_speeds
import pytest

TABLES = {"table": "docs/gpus.md", "loop": "docs/speed.md", "fedcli": "docs/speed.md"}


@pytest.mark.parametrize("part", TABLES)
def test_pages_have_the_numbers_that_were_measured(part):
    page = (gpu_speeds.ROOT / TABLES[part]).read_text(encoding="utf-8")
    rows = [row for row in gpu_speeds.ROWS if row["part"] == part]
    assert rows
    for row in rows:
        if row["minutes"]:
            assert f"{row['minutes']} min" in page
        else:
            assert f" {int(row['images_per_second']):,} " in page
