"""Datasets divided by default, datasets that are joined, and clients that are corrupted."""

from pathlib import Path

import pytest

import fedcli
from fedcli.data import manifest
from fedcli.errors import UsageError
from fedcli.stages import corrupt
from fedcli.stages import partition as division
from fedcli.stages.options import CorruptOptions, PartitionOptions


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("divided")


@pytest.fixture(scope="module")
def toy(work):
    return fedcli.prepare("toy", size=8, sample_images=120, work=work)


@pytest.fixture(scope="module")
def phantom(work):
    return fedcli.prepare("phantom", size=8, sample_images=120, work=work)


@pytest.fixture
def said(caplog):
    caplog.set_level("INFO", "fedcli")
    return lambda: [record.message for record in caplog.records]


def clients_of(result):
    return [client["client"] for client in result.body["roster"]]


def test_a_dataset_with_sites_is_divided_by_them(phantom, work, said):
    result = fedcli.partition(phantom, work=work)
    assert "partition: the sites in 'site'" in said()
    assert clients_of(result) == phantom.body["attributes"]["site"]
    assert result.manifest.made_by[:3] == ["partition", "--by", "site"]


@pytest.mark.parametrize(
    ("options", "sentence", "filled"),
    [
        ({"clients": 2}, "partition: 2 clients, Dirichlet(1)", (1.0, 2)),
        ({"dirichlet": 0.5, "clients": 3}, "partition: 3 clients, Dirichlet(0.5)", (0.5, 3)),
        ({"dirichlet": 2.0, "clients": 1}, "partition: 1 client, Dirichlet(2)", (2.0, 1)),
        ({"clients": 1}, "partition: 1 client with all images", (None, 1)),
    ],
)
def test_a_number_of_clients_is_asked_of_dirichlet_even_where_there_are_sites(
    phantom, said, options, sentence, filled
):
    result = division.by_default(PartitionOptions(phantom.path, **options))
    assert said() == [sentence]
    assert (result.dirichlet, result.clients) == filled
    assert result.by == ()


def test_a_dataset_without_sites_has_its_usual_number_of_clients(toy, work, said):
    result = fedcli.partition(toy, work=work)
    count = toy.body["clients"]
    assert said()[0] == f"partition: {count} clients, Dirichlet(1)"
    assert len(clients_of(result)) == count


def test_one_client_has_all_training_images(toy, work):
    result = fedcli.partition(toy, clients=1, work=work)
    (client,) = result.body["roster"]
    assert client["train"] == toy.body["split"]["train"]


def test_few_images_are_divided_among_fewer_clients_which_is_said(work, said):
    tiny = fedcli.prepare("toy", size=8, sample_images=12, work=work)
    result = fedcli.partition(tiny, minimum=4, work=work)
    count = len(clients_of(result))
    usual = tiny.body["clients"]
    assert count < usual
    images = sum(client["train"] for client in result.body["roster"])
    assert f"{count} clients, not {usual}: {images} training images are too few for more." in said()


def test_a_dataset_is_divided_before_a_training_and_a_partition_is_left_as_it_is(toy, work):
    divided = division.for_training(toy.path, work)
    assert manifest.read(divided).kind == "partition"
    assert division.for_training(divided, work) == divided


@pytest.mark.parametrize("options", [{"classes_table": "table.csv"}, {"clients_of": {"toy": 2}}])
def test_options_of_several_datasets_need_several(toy, options):
    with pytest.raises(UsageError) as refusal:
        division.divided(PartitionOptions(toy, **options))
    assert refusal.value.sentence == ("--classes-table and --clients-of are about several datasets")
    assert refusal.value.hint == "add --merge DATASET"


def merged(toy, phantom, work, **options):
    return PartitionOptions(merge=[f"digits={toy}"], dataset=phantom.path, work=work, **options)


def test_datasets_have_the_names_that_are_written_before_them_or_their_own(toy, phantom, work):
    datasets = division._merged_datasets(merged(toy, phantom, work))
    assert datasets == {"digits": toy.path, "phantom": phantom.path}


@pytest.mark.parametrize(
    ("merge", "fault"),
    [
        (["{toy}", "{toy}"], "two datasets are called 'toy'"),
        (["a/b={toy}"], "'a/b' is no name of a dataset"),
        (["..={toy}"], "'..' is no name of a dataset"),
    ],
)
def test_a_name_of_a_dataset_is_refused(toy, work, merge, fault):
    texts = [text.format(toy=toy) for text in merge]
    with pytest.raises(UsageError) as refusal:
        division._merged_datasets(PartitionOptions(merge=texts, work=work))
    assert refusal.value.sentence == f"--merge: {fault}"
    assert refusal.value.hint == "write --merge NAME=MANIFEST"


def test_clients_are_of_a_dataset_that_is_merged(toy, phantom, work):
    with pytest.raises(UsageError) as refusal:
        division.divided(merged(toy, phantom, work, clients_of={"digit": 2}))
    assert refusal.value.sentence == "--clients-of: no dataset is called 'digit'"
    assert "digits" in refusal.value.hint


def test_each_merged_dataset_is_divided_by_itself(phantom, work):
    other = fedcli.prepare("phantom", size=8, seed=3, sample_images=120, work=work)
    options = PartitionOptions(
        merge=[f"left={phantom}", f"right={other}"],
        clients_of={"left": 2},
        clients=3,
        iid=True,
        work=work,
    )
    clients = clients_of(division.divided(options))
    assert len(clients) == 5
    assert sum("left" in client for client in clients) == 2
    assert sum("right" in client for client in clients) == 3


def test_the_file_of_a_scheme_of_ones_own_is_recorded_by_its_name(toy, work, tmp_path):
    path = tmp_path / "halves.py"
    path.write_text(SCHEME, encoding="utf-8")
    result = fedcli.partition(toy, scheme=f"{path}:halves", work=work)
    assert result.manifest.made_by == ["partition", "--scheme", "halves.py:halves"]
    assert str(tmp_path) not in result.path.read_text(encoding="utf-8")


SCHEME = '''
from dataclasses import dataclass

import numpy as np
from fedcli.data.partition.scheme import Scheme, register


@register("halves")
@dataclass(frozen=True, kw_only=True)
class Halves(Scheme):
    """Two clients, one after the other."""

    def assign(self, images):
        first, second = np.array_split(np.arange(len(images)), 2)
        return {"first": first, "second": second}
'''


@pytest.fixture(scope="module")
def clients(toy, work):
    return fedcli.partition(toy, iid=True, clients=4, work=work)


def test_a_path_in_place_of_a_kind_is_the_partition(clients, work):
    options = CorruptOptions(kind=str(clients), client=["client-00=gaussian:1"], work=work)
    moved = corrupt._with_partition_typed_first(options)
    assert (moved.partition, moved.kind) == (str(clients), None)


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "gaussian"},
        {"kind": "nowhere.json", "client": ["a=gaussian:1"]},
        {"kind": "fog", "partition": "p.json", "match": "a"},
    ],
)
def test_a_kind_is_a_kind(options):
    written = CorruptOptions(**options)
    assert corrupt._with_partition_typed_first(written) is written


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({"kind": "gaussian"}, ["gaussian", "--severity", "3", "--ratio", "0.2"]),
        (
            {"kind": "shot-noise", "on": ["client-01"], "severity": 5},
            ["shot-noise", "--severity", "5", "--on", "client-01"],
        ),
        ({"client": ["client-00=shot-noise:2"]}, ["--client", "client-00=shot-noise:2"]),
        ({"kind": "labels", "rate": 0.5}, ["labels", "--rate", "0.5", "--ratio", "0.2"]),
        (
            {"kind": "labels", "client": ["client-00=symmetric:0.5"]},
            ["labels", "--client", "client-00=symmetric:0.5"],
        ),
        (
            {"kind": "labels", "on": ["client-02"], "change": "pair"},
            ["labels", "--kind", "pair", "--on", "client-02"],
        ),
    ],
)
def test_the_recorded_command_has_what_decided_who_is_corrupted(clients, work, options, command):
    result = fedcli.corrupt(clients, **options, work=work)
    assert result.manifest.made_by == ["corrupt", *command]


@pytest.mark.parametrize(
    ("options", "corrupted"),
    [
        ({"ratio": 0.5}, 2),
        ({"ratio": 1.0}, 4),
        ({"on": ["client-03"]}, 1),
    ],
)
def test_the_share_or_the_names_decide_how_many_are_corrupted(clients, work, options, corrupted):
    result = fedcli.corrupt(clients, "gaussian", **options, work=work)
    assert len(result.body["clients"]) == corrupted


def test_a_command_that_is_typed_again_makes_nothing_twice(work, tmp_path):
    toy = fedcli.prepare("toy", size=8, sample_images=120, work=tmp_path)
    fedcli.partition(toy, iid=True, clients=4, work=tmp_path)
    noisy = fedcli.corrupt(kind="labels", work=tmp_path)
    again = fedcli.corrupt(kind="labels", work=tmp_path)
    assert again.path == noisy.path
    attacked = fedcli.corrupt(kind="clients", change="scale", work=tmp_path)
    assert fedcli.corrupt(kind="clients", change="scale", work=tmp_path).path == attacked.path


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({}, ["clients", "--kind", "scale"]),
        (
            {"on": ["client-00"], "strength": 3.0},
            ["clients", "--kind", "scale", "--strength", "3.0", "--on", "client-00"],
        ),
    ],
)
def test_the_recorded_attack_has_its_kind_and_its_attackers(clients, work, options, command):
    result = fedcli.corrupt(clients, "clients", change="scale", **options, work=work)
    assert result.manifest.made_by == ["corrupt", *command]


def test_prepare_goes_on_as_far_as_it_is_asked(work):
    dataset = fedcli.prepare("toy", size=8, sample_images=120, work=work)
    divided = fedcli.prepare("toy", size=8, sample_images=120, clients=3, work=work)
    noisy = fedcli.prepare(
        "toy", size=8, sample_images=120, clients=3, corrupt="gaussian", ratio=0.4, work=work
    )
    kinds = [type(result).__name__ for result in (dataset, divided, noisy)]
    assert kinds == ["Dataset", "Partition", "Corruption"]
    assert len(noisy.body["clients"]) == 1
    assert Path(manifest.parent(noisy.path, "partition")) == divided.path


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("isic2018", "; --split lesion keeps them together"),
        ("rsna-ich", "; --split patient keeps them together"),
        ("toy", ""),
    ],
)
def test_a_dataset_that_can_keep_patients_together_says_how(name, end):
    from fedcli.stages import prepare

    assert prepare._remedy(name) == end
