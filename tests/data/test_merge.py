"""`partition --merge`: several datasets in one federation."""

import numpy as np
import pytest
from hospitals import prepared, write_hospitals

import fedcli
from fedcli.data import manifest
from fedcli.data.pool import holdings, pool_of
from fedcli.data.preparation import merge
from fedcli.data.sources.formats.photographs import fit_image
from fedcli.errors import FedcliError, HashError, UsageError


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def north(work):
    """Two hospitals, 10 pixels."""
    raw = write_hospitals(work / "north", hospitals=("a", "b"), count=48, size=10)
    return prepared(raw, work, size=10)


@pytest.fixture(scope="module")
def south(work):
    """One hospital of another name for the illness, 8 pixels, and one more class."""
    classes = ("healthy", "sick", "unclear")
    raw = write_hospitals(work / "south", classes=classes, hospitals=("c",), count=48, seed=1)
    return prepared(raw, work)


@pytest.fixture
def table(tmp_path):
    def write(*lines):
        (tmp_path / "classes.csv").write_text("\n".join(["dataset,class,joined", *lines]) + "\n")
        return tmp_path / "classes.csv"

    return write


ILL = (
    "north,healthy,healthy",
    "north,ill,ill",
    "south,healthy,healthy",
    "south,sick,ill",
    "south,unclear,",
)


def merged(work, north, south, **how):
    return fedcli.partition(merge=[f"north={north.path}", f"south={south.path}"], work=work, **how)


def held(partition):
    """Client -> ids of its training images."""
    pool, rows, _ = holdings(partition.path)
    return {client: pool.id[parts["train"]].tolist() for client, parts in rows.items()}


def test_images_classes_and_attributes_are_joined_by_the_stated_rules(work, north, south, table):
    classes_table = table(*ILL)
    joined = merged(work, north, south, classes_table=classes_table)
    dataset = manifest.above(joined.path, "dataset")
    body = manifest.verify(dataset).body
    pool = pool_of(dataset)
    of_north = pool_of(north.path)
    of_south = pool_of(south.path)
    result = (body["classes"], body["attributes"]["dataset"])
    assert result == (
        ["healthy", "ill"],
        ["north", "south"],
    )
    assert body["attributes"]["hospital"] == ["a", "b", "c"]
    with_class = np.flatnonzero(of_south.y < 2)
    expected = [f"north/{id}" for id in of_north.id] + [
        f"south/{id}" for id in of_south.id[with_class]
    ]
    assert pool.id.tolist() == expected
    expected = of_north.y.tolist() + of_south.y[with_class].tolist()
    assert pool.y.tolist() == expected
    expected = of_north.split.tolist() + of_south.split[with_class].tolist()
    assert pool.split.tolist() == expected
    expected = of_north.groups["hospital"].tolist() + [2] * len(with_class)
    assert pool.groups["hospital"].tolist() == expected
    assert (pool.pixels()[:48] == of_north.pixels()).all()
    image = of_south.pixels()[with_class[0]]
    grown = fit_image(image, 10, "stretch", False)
    assert (pool.pixels()[48] == grown).all()
    assert not {*pool.patient[:48]} & {*pool.patient[48:]}


def test_a_client_has_images_of_one_dataset_and_those_that_it_would_have_without_the_other(
    work, north, south, table
):
    how = {"dirichlet": 1.0, "seed": 3, "val": 0.2}
    clients_of = {"north": 3, "south": 2}
    classes_table = table(*ILL)
    partition = merged(
        work,
        north,
        south,
        classes_table=classes_table,
        clients_of=clients_of,
        **how,
    )
    ids_by_client = held(partition)
    expected = [f"north-client-0{k}" for k in range(3)] + [
        "south-client-00",
        "south-client-01",
    ]
    assert [*ids_by_client] == expected
    classes_table = table(*ILL)
    path = merged(work, north, south, classes_table=classes_table, iid=True, clients=2).path
    pool, rows, tests = holdings(path)
    result = pool.id[rows["south-client-01"]["test"]].tolist()
    expected = [id for id in pool.id[tests] if id.startswith("south/")]
    assert result == expected
    partition = fedcli.partition(north, clients=3, work=work, **how | {"val": 0})
    alone = held(partition)
    classes_table = table(*ILL)
    partition = merged(
        work, north, south, classes_table=classes_table, clients=3, **how | {"val": 0}
    )
    both = held(partition)
    for client, ids in alone.items():
        expected = [f"north/{id}" for id in ids]
        assert both[f"north-{client}"] == expected


def test_by_sites_a_dataset_that_lacks_them_is_one_client_and_one_may_be_held_out(
    work, north, south, table, tmp_path
):
    raw = write_hospitals(tmp_path / "plain", count=30, seed=2)
    plain = fedcli.prepare("images", raw=raw, size=8, work=work, jobs=1)
    by_hospital = fedcli.partition(plain, merge=[f"north={north.path}"], by=["hospital"], work=work)
    assert [*held(by_hospital)] == ["north-a", "north-b", "images"]
    classes_table = table(*ILL)
    out = merged(work, north, south, classes_table=classes_table, hold_out="dataset=south")
    assert [*held(out)] == ["north-a", "north-b"]
    scored = fedcli.evaluate(fedcli.train("fedavg", out, rounds=1, work=work), by=["dataset"])
    result = scored.body["groups"]["dataset"]["clean"]["last_round"]["groups"]["south"]["count"]
    assert result == 32


def test_a_changed_dataset_is_seen_through_the_chain(work, north, south, table, tmp_path):
    raw = write_hospitals(tmp_path / "raw", count=30, seed=5)
    copy = prepared(raw, tmp_path)
    joined = fedcli.partition(merge=[f"x={copy.path}", f"north={north.path}"], work=tmp_path)
    with (copy.path.parent / "pool.h5").open("ab") as file:
        file.write(b"x")
    with pytest.raises(HashError, match=r"pool.h5"):
        manifest.verify(joined.path)


def test_datasets_without_a_common_class_are_merged_with_a_warning(
    work, north, south, table, capsys
):
    lines = (*ILL[:2], "south,healthy,well", "south,sick,sick", "south,unclear,")
    out = merged(work, north, south, classes_table=table(*lines))
    words = " ".join(capsys.readouterr().err.split())
    assert "no class of north and south has the same name" in words
    dataset = manifest.above(out.path, "dataset")
    assert manifest.read(dataset).body["classes"] == ["healthy", "ill", "well", "sick"]


def test_what_does_not_fit_is_said_in_a_sentence(work, north, south, table, tmp_path):
    for lines, sentence in {
        ILL[:-1]: "has no line for the class 'unclear' of south",
        (*ILL, ILL[0]): "'healthy' is named twice of north",
        ("west,ill,ill",): "'west' is no dataset of --merge",
        tuple(
            ",".join([*line.split(",")[:2], "skin"]) for line in ILL
        ): "all images would be 'skin'",
    }.items():
        with pytest.raises(FedcliError, match=sentence):
            classes_table = table(*lines)
            merged(work, north, south, classes_table=classes_table)
    with pytest.raises(FedcliError, match="an image of y is one of x, pixel for pixel"):
        fedcli.partition(merge=[f"x={north.path}", f"y={north.path}"], work=work)
    raw = write_hospitals(tmp_path / "raw", count=20, seed=7)
    several = fedcli.prepare("images", raw=raw, size=8, multi_label=True, work=work, jobs=1)
    with pytest.raises(FedcliError, match="s has several labels per image, north has one"):
        fedcli.partition(merge=[f"north={north.path}", f"s={several.path}"], work=work)
    with pytest.raises(UsageError, match="two datasets are called 'images'"):
        fedcli.partition(north, merge=[str(south.path)], work=work)
    with pytest.raises(UsageError, match="no dataset is called 'sout'"):
        merged(work, north, south, clients_of={"sout": 2})
    with pytest.raises(UsageError, match="are about several datasets"):
        fedcli.partition(north, clients_of={"north": 2}, work=work)
    with pytest.raises(FedcliError, match="joins two datasets or more"):
        fedcli.partition(merge=[str(north.path)], work=work)


def test_slices_become_grey_and_grey_becomes_coloured():
    grey, colours, slices = (
        np.full((4, 4, c), 10, np.uint8) * np.arange(1, c + 1, dtype=np.uint8) for c in (1, 3, 5)
    )
    result = [merge._fitted(image, 4, 3)[0, 0].tolist() for image in (grey, colours, slices)]
    expected = [
        [10] * 3,
        [10, 20, 30],
        [30] * 3,
    ]
    assert result == expected
    result = merge._fitted(slices, 4, 5).shape
    assert result == (4, 4, 5)
