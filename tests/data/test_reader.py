"""What workers of prepare do beside decoding: memory that is kept from one image to the next."""

import numpy as np
from PIL import Image

from fedcli.data import prepare
from fedcli.data.pool import Row
from fedcli.data.sources.images import read_rgb
from fedcli.data.sources.source import Listing


def test_the_memory_of_an_image_is_that_of_the_one_before(tmp_path):
    Image.new("RGB", (300, 200), (1, 2, 3)).save(tmp_path / "a.png")
    read_rgb(tmp_path / "a.png")
    before = Image.core.get_stats()["reused_blocks"]
    assert (read_rgb(tmp_path / "a.png") == (1, 2, 3)).all()
    assert Image.core.get_stats()["reused_blocks"] > before


def test_every_file_has_its_own_contents_however_many_a_thread_is_handed(tmp_path):
    for i in range(prepare.TURN + 2):
        (tmp_path / f"{i}.png").write_bytes(np.full(3 * prepare.PIECE + i, i, np.uint8).tobytes())
    rows = [Row(str(i), 0, f"{i}.png") for i in reversed(range(prepare.TURN + 2))]
    contents = prepare.contents_of(tmp_path, Listing(rows, skipped=[("none.png", "absent")]))
    assert list(contents) == sorted([*(row.source for row in rows), "none.png"])
    assert contents["none.png"] == prepare.ABSENT
    sizes = {name: int(seen.split()[0]) for name, seen in contents.items() if name != "none.png"}
    assert sizes == {f"{i}.png": 3 * prepare.PIECE + i for i in range(prepare.TURN + 2)}
    assert len(set(contents.values())) == len(contents)
