"""The numbers of figures, of runs and images that are made here: what each line counts, and what is
left out."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedcli.data.quality import BINS, MEASURES
from fedcli.errors import FedcliError
from fedcli.figures import series, trained
from fedcli.figures import system as system_module
from fedcli.figures.figure import NothingToDraw
from fedcli.figures.kinds import (
    adapters,
    confusion,
    counts,
    divergence,
    errors,
    flow,
    quality,
    reconstructions,
    weights,
)
from fedcli.figures.series import Series
from fedcli.figures.system import AnsweredImages
from fedcli.io.hdf5 import create_hdf5
from fedcli.methods.fedmas import RECEIVED

NAN = float("nan")


def curve(*values):
    """Numbers of round 1, 2 and so on: [T, 2]."""
    rounds = np.arange(1, len(values) + 1)
    return np.stack([rounds, values], axis=1).astype(float)


def a_record(corrupted=(), **curves):
    """A run that recorded the weight of each client."""
    recorded = {}
    if curves:
        recorded["weights"] = Series("Weight", "", curves, "weights")
    return SimpleNamespace(series=recorded, corrupted=list(corrupted))


def weights_by_client(table):
    return {name: part["weight"].tolist() for name, part in table.groupby("client", sort=False)}


def test_a_weight_is_the_mean_over_seeds():
    first = a_record(north=curve(0.2, 0.4), south=curve(0.8, 0.6))
    second = a_record(north=curve(0.4, 0.4), south=curve(0.6, 0.6))
    runs = [first, second]
    table = weights.frame({"FedAvg": runs})
    by_client = weights_by_client(table)
    assert by_client["north"] == pytest.approx([0.3, 0.4])
    assert by_client["south"] == pytest.approx([0.7, 0.6])
    assert set(table["system"]) == {"FedAvg"}


def test_a_client_has_a_gap_in_a_round_without_it():
    in_round_2 = np.array([[2.0, 1.0]])
    run = a_record(north=curve(0.5, 0.5), south=in_round_2)
    table = weights.frame({"FedAvg": [run]})
    south = weights_by_client(table)["south"]
    assert np.isnan(south[0])
    assert south[1] == 1.0


def test_a_client_that_never_took_part_is_left_out():
    run = a_record(north=curve(1.0), south=curve(NAN))
    table = weights.frame({"FedAvg": [run]})
    assert weights_by_client(table) == {"north": [1.0]}


def test_a_client_that_is_corrupted_in_one_run_is_marked_in_all():
    half = curve(0.5)
    clean = a_record(north=half, south=half)
    corrupted = a_record(["south"], north=half, south=half)
    table = weights.frame({"FedAvg": [clean, corrupted]})
    corrupted = table.groupby("client")["corrupted"].first()
    assert corrupted.to_dict() == {"north": False, "south": True}


def test_a_system_without_weights_is_left_out_and_none_is_refused():
    run = a_record(north=curve(1.0))
    table = weights.frame({"alone": [a_record()], "FedAvg": [run]})
    assert set(table["system"]) == {"FedAvg"}
    with pytest.raises(NothingToDraw, match="no run recorded weights of clients"):
        weights.frame({"alone": [a_record()]})


CHANCES = np.array([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8], [0.6, 0.4], [0.45, 0.55]])
GUESSES = CHANCES.argmax(1)  # 0, 1, 1, 0, 1
Y = np.array([0, 0, 1, 1, 0])
IDS = np.array(["e", "d", "c", "b", "a"])
SEX = np.array([0, 0, 1, 1, -1])


def answered(y=Y):
    groupings = {"sex": (SEX, ["f", "m"])}
    return AnsweredImages(["well", "ill"], IDS, CHANCES, y, np.arange(5), False, groupings)


def system_of(images):
    """A system that answers these images."""
    system = SimpleNamespace(run_name="FedAvg", paths=[Path("scores.json")])
    system.scores = SimpleNamespace(dataset="skin", external=None)
    system.images = lambda version, attribute: images
    system.heading = lambda *words: ", ".join(words)
    return system


def test_every_pair_of_classes_has_its_images_of_each_group():
    table = confusion.frame(system_of(answered()), by="sex")
    counted = table.set_index(["group", "true", "predicted"])["images"]
    whole = counted["all images"]
    assert whole["well"].to_dict() == {"well": 1, "ill": 2}
    assert whole["ill"].to_dict() == {"well": 1, "ill": 1}
    assert counted["f"].sum() == counted["m"].sum() == 2
    assert counted["m", "ill", "well"] == 1


def test_the_caption_of_confusions_says_where_groups_are_left_out(monkeypatch):
    caption = confusion.frame(system_of(answered()), by="sex").attrs["caption"]
    assert "largest groups" not in caption
    monkeypatch.setattr(system_module, "MOST_LINES", 1)
    caption = confusion.frame(system_of(answered()), by="sex").attrs["caption"]
    assert f"Shown are {system_module.LARGEST}." in caption


def test_images_of_several_labels_have_no_confusion_matrix():
    several = np.eye(2, dtype=int)[Y]
    with pytest.raises(NothingToDraw, match="images of skin have several labels"):
        confusion.frame(system_of(answered(several)))


def test_an_image_of_no_group_is_no_error_of_one():
    lines = errors._lines(answered(), "sex")
    assert [line[:2] for line in lines] == [("f", "d"), ("m", "b")]
    whole = errors._lines(answered(), "")
    assert [line[1] for line in whole] == ["d", "b", "a"]  # the surest first
    _, _, predicted, probability, true = whole[0]
    assert (predicted, true) == ("ill", "well")
    assert probability == 0.7


def test_a_model_that_is_right_everywhere_has_no_errors_to_show():
    with pytest.raises(NothingToDraw, match="FedAvg has no errors to show"):
        errors.frame(system_of(answered(GUESSES)))


def test_errors_whose_images_are_elsewhere_are_not_drawn(monkeypatch):
    monkeypatch.setattr(errors, "dataset_of", lambda path, scores: None)
    with pytest.raises(NothingToDraw, match="the images of FedAvg are not here"):
        errors.frame(system_of(answered()))


@pytest.mark.parametrize(("kind", "dataset"), [("dataset", "tested"), ("partition", "above")])
def test_errors_on_another_dataset_show_its_images(monkeypatch, kind, dataset):
    tested = Path("tested")
    above = {(Path("scores"), kind): tested, (tested, "dataset"): Path("above")}
    monkeypatch.setattr(errors.manifest, "parent", lambda path, *kinds: above.get((path, *kinds)))
    monkeypatch.setattr(errors.manifest, "read", lambda path: SimpleNamespace(kind=kind))
    scores = SimpleNamespace(external=SimpleNamespace(kind=kind))
    assert errors.dataset_of(Path("scores"), scores) == Path(dataset)


@pytest.fixture
def source(monkeypatch):
    """A partition of skin, as figures of its images look for it."""
    path = Path("partition.json")
    for module in (counts, quality):
        monkeypatch.setattr(module, "partition_of", lambda path: path)
        monkeypatch.setattr(module, "dataset_of", lambda source: "skin")
    return path


COUNTED = {
    "class": {
        "north": {"train": {"well": 5, "ill": 2}},
        "south": {"train": {"ill": 4}},
        "all": {"test": {"well": 9}},
    }
}


def test_a_client_without_images_of_a_class_has_0_of_them(source, monkeypatch):
    monkeypatch.setattr(counts.image_counts, "of_manifest", lambda source: COUNTED)
    table = counts.frame(source)
    numbers = table.set_index(["client", "value"])["images"]
    assert numbers["north"].to_dict() == {"well": 5, "ill": 2}
    assert numbers["south"].to_dict() == {"well": 0, "ill": 4}
    assert table.attrs["title"] == "Images of each client: skin"


@pytest.mark.parametrize(
    ("body", "words"),
    [({"dataset": "skin"}, "skin"), ({"dataset": "skin", "sample": True}, "skin, SYNTHETIC data")],
)
def test_a_dataset_of_made_up_images_says_so(monkeypatch, body, words):
    monkeypatch.setattr(counts.manifest, "read", lambda source: SimpleNamespace(body=body))
    assert counts.dataset_of(Path("partition.json")) == words


def a_record_of(**by_class):
    recorded = {name: Series(name, "", curves) for name, curves in by_class.items()}
    return SimpleNamespace(folder=Path("run"), label="Fed-MAS", played=2, series=recorded)


def test_the_divergence_is_of_the_last_round_and_of_clients_with_images(source, monkeypatch):
    monkeypatch.setattr(counts.image_counts, "of_manifest", lambda source: COUNTED)
    well = {"north": curve(0.5, 0.25), "south": curve(0.5, 0.75)}
    ill = {"north": curve(0.1, 0.2), "south": curve(0.3, 0.4)}
    record = a_record_of(**{f"{RECEIVED}0": well, f"{RECEIVED}1": ill})
    monkeypatch.setattr(series, "read", lambda path: record)
    table = divergence.frame(source)
    w = table.set_index(["client", "value"])["w"]
    assert w["north", "well"] == 0.25
    assert w["north", "ill"] == 0.2
    assert w["south", "ill"] == 0.4
    assert np.isnan(w["south", "well"])  # it has no image of it
    assert table.attrs["title"].endswith("in round 2")


def test_a_run_without_divergence_is_told_how_to_record_it(source, monkeypatch):
    monkeypatch.setattr(counts.image_counts, "of_manifest", lambda source: COUNTED)
    monkeypatch.setattr(series, "read", lambda path: a_record_of())
    with pytest.raises(FedcliError) as refusal:
        divergence.frame(source)
    assert refusal.value.sentence == "run recorded no divergence by class"
    assert refusal.value.hint == "fedcli train fed-mas --set by_class=true"


def test_rows_of_singular_values_are_groups_and_of_products_numbers(monkeypatch):
    run = SimpleNamespace(manifest=SimpleNamespace(body={"label": "FairLoRA"}))
    values_by_group = torch.tensor([[3.0, 1.0], [2.0, 0.5]])
    matrices = {"S": values_by_group, "U'U": torch.eye(2)}
    monkeypatch.setattr(trained, "opened", lambda path, device: run)
    monkeypatch.setattr(trained, "matrices", lambda run: ("layer", matrices, ["f", "m"]))
    table = adapters.frame(Path("run.json"))
    values = table.set_index(["matrix", "row", "column"])["value"]
    assert values["S", "m", 0] == 2.0
    assert values["U'U", "1", 1] == 1.0
    assert table.attrs["title"] == "FairLoRA: layer, rank 2"


def measured(images_by_site, values):
    """Measured images, whose histograms are of their first measure in all measures."""
    histograms = {}
    for site, count in images_by_site.items():
        counted = np.zeros((len(MEASURES), BINS), int)
        counted[:, :count] = 1
        histograms[site] = counted
    rows = np.arange(len(values))
    images = SimpleNamespace(histograms=histograms, rows=rows)
    names = [f"image-{k}" for k in rows]
    images.pool = SimpleNamespace(id=np.array(names))
    column = np.array(values)[:, None]
    images.values = np.tile(column, len(MEASURES))
    images.files = [f"place-{k}" for k in rows]
    return images


@pytest.fixture
def places(monkeypatch):
    """The places whose pixels are read, in their order."""
    asked_for = []

    def pixels(files):
        asked_for.extend(files)
        return np.zeros((len(files), 2, 2, 3), np.uint8)

    monkeypatch.setattr(quality.image_places, "pixels", pixels)
    return asked_for


def test_the_shares_of_a_hospital_are_of_its_own_images(source, places, monkeypatch):
    of_sites = measured({"north": 4, "south": 2}, [1.0, 2.0])
    monkeypatch.setattr(quality.quality_by_site, "of_manifest", lambda source, by: of_sites)
    table = quality.frame(source)
    totals = table.groupby(["measure", "site"])["share"].sum()
    assert totals.tolist() == pytest.approx([100.0] * 2 * len(MEASURES))
    with_images = table[table["share"] > 0]
    shares = with_images.groupby("site")["share"].first()
    assert shares.to_dict() == {"north": 25.0, "south": 50.0}


def test_hospitals_without_a_histogram_are_said_to_be_left_out(source, places, monkeypatch):
    of_sites = measured({f"h{number}": 1 for number in range(8)}, range(8))
    monkeypatch.setattr(quality.quality_by_site, "of_manifest", lambda source, by: of_sites)
    table = quality.frame(source)
    assert table["site"].nunique() == 7
    assert "Histograms are of the first 7 of 8." in table.attrs["caption"]


def test_the_lowest_and_the_highest_image_of_a_measure_are_shown(source, places, monkeypatch):
    of_sites = measured({"north": 3}, [7.0, 2.0, 5.0])
    monkeypatch.setattr(quality.quality_by_site, "of_manifest", lambda source, by: of_sites)
    cases = quality.frame(source).attrs["cases"]
    assert len(cases) == 2 * len(MEASURES)
    assert set(places[: len(MEASURES)]) == {"place-1"}
    assert set(places[len(MEASURES) :]) == {"place-0"}
    words, _ = cases[0]
    assert words == f"lowest {MEASURES[0].title}\nimage-1\n2 {MEASURES[0].unit}"


DATASET = {"count": 100, "skipped": [{"why": "cut short"}] * 3}
DATASET |= {"split": {"train": 80, "test": 20, "by": "image"}, "unit": None}
PARTITION = {
    "roster": [
        {"client": "north", "train": 40, "val": 5, "test": 6},
        {"client": "south", "train": 20, "val": 5, "test": 4},
    ],
    "scheme": "halves.py:halves",
}


@pytest.fixture
def manifests(monkeypatch):
    """The manifests above a run, which a test may change."""
    bodies = {"dataset": DATASET, "partition": dict(PARTITION)}

    def read(path):
        return SimpleNamespace(kind="partition", body=bodies[path.name])

    monkeypatch.setattr(flow.manifest, "above", lambda run, kind: Path(kind))
    monkeypatch.setattr(flow.manifest, "parent", lambda run, *kinds: Path("partition"))
    monkeypatch.setattr(flow.manifest, "read", read)
    return bodies


def steps_of(external=None, images=20):
    scores = SimpleNamespace(external=external, images=images)
    return {step.step: step for step in flow._steps(Path("run.json"), scores)}


@pytest.mark.usefixtures("manifests")
def test_images_are_counted_from_the_files_to_the_test():
    images = {name: step.images for name, step in steps_of().items()}
    assert images == {
        "files listed": 103,
        "images prepared": 100,
        "training part": 80,
        "trained on": 60,
        "validated on": 10,
        "tested on": 20,
    }


def test_training_images_that_no_client_has_are_counted(manifests):
    assert ", 10 of the training part held by none." in steps_of()["trained on"].about
    manifests["dataset"] = DATASET | {"split": DATASET["split"] | {"train": 70}}
    assert "held by none" not in steps_of()["trained on"].about


def test_a_hospital_that_is_held_out_has_a_box(manifests):
    held_out = {"attribute": "site", "value": "west", "images": 15}
    manifests["partition"] = PARTITION | {"held_out": held_out}
    step = steps_of()["held out"]
    assert (step.images, step.about) == (15, "site west, for testing")


@pytest.mark.parametrize(
    ("clients", "images", "about"),
    [
        (["north"], 40, "5 validation images and a copy of 2 test images"),
        (["north", "west"], 48, "5 validation images and a copy of 2 test images"),
        (["west"], 8, "a copy of 2 test images"),
    ],
)
def test_corrupted_images_are_those_that_train_and_others_stand_beside_them(
    tmp_path, monkeypatch, clients, images, about
):
    rows = {"train": 60, "test": 2}
    with create_hdf5(tmp_path / "changed.h5", 0) as file:
        for part, count in rows.items():
            file[f"{part}/rows"] = np.arange(count)
            file[f"{part}/x"] = np.zeros((count, 2, 2, 1), np.uint8)
    body = {"kind": "gaussian-noise", "severity": 3, "clients": clients}
    west = {"client": "west", "train": 8, "val": 0, "test": 0}
    body["roster"] = [*PARTITION["roster"], west]
    monkeypatch.setattr(flow.manifest, "read", lambda path: SimpleNamespace(body=body))
    step = flow._corrupted(tmp_path / "corruption.json")
    assert step.step == "training images corrupted"
    assert step.images == images
    assert step.about.startswith("gaussian noise of severity 3, ")
    assert step.about.endswith(f"; also {about}")


def test_the_origin_of_test_images_is_said(manifests):
    assert steps_of()["tested on"].about == "10 in clients' own test parts"
    roster = [client | {"test": 0} for client in PARTITION["roster"]]
    manifests["partition"] = PARTITION | {"roster": roster}
    assert steps_of()["tested on"].about == "shared by all clients"
    external = SimpleNamespace(sentence="scored on another hospital")
    assert steps_of(external)["tested on"].about == "scored on another hospital"


def test_a_run_whose_data_are_at_sites_has_no_flow(monkeypatch):
    monkeypatch.setattr(flow.manifest, "parent", lambda path, kind: None)
    with pytest.raises(NothingToDraw, match="the data of FedAvg are not here"):
        flow.frame(system_of(answered()))


INVERSION = {"client": "north", "models": [{"model": "first", "psnr": [20.0, 15.0]}]}


@pytest.fixture
def audit(monkeypatch):
    """The inversion of an audit of two images, which a test completes."""
    inversion = dict(INVERSION)
    body = {"label": "FedAvg", "inversion": inversion}
    images = {name: ["pixels"] * 2 for name in (reconstructions.finished.ORIGINAL, "first")}
    monkeypatch.setattr(reconstructions.manifest, "find", lambda path, kind: Path("run/run.json"))
    monkeypatch.setattr(
        reconstructions.manifest, "read", lambda path, kind: SimpleNamespace(body=body)
    )
    monkeypatch.setattr(reconstructions.finished, "newest", lambda run: Path("audit.json"))
    monkeypatch.setattr(reconstructions.finished, "pictures", lambda audit: images)
    return inversion


@pytest.mark.parametrize(
    ("guesses", "words"),
    [
        ({"blind": [9.0, 8.0]}, "the mean of all test images"),
        ({"blind": [1.0, 1.0], "blind_by_class": [9.0, 8.0]}, "the mean test image of its class"),
    ],
)
def test_a_reconstruction_stands_beside_the_best_guess_without_a_gradient(audit, guesses, words):
    audit.update(guesses)
    table = reconstructions.frame(Path("run"))
    psnr = table.groupby("shown")["psnr"].apply(list).to_dict()
    assert psnr == {reconstructions.finished.ORIGINAL: [9.0, 8.0], "first": [20.0, 15.0]}
    assert words in table.attrs["caption"]
    assert len(table.attrs["pixels"]) == len(table)


@pytest.mark.usefixtures("audit")
def test_a_run_without_an_audit_has_no_reconstructions(monkeypatch):
    monkeypatch.setattr(reconstructions.finished, "newest", lambda run: None)
    with pytest.raises(NothingToDraw) as refusal:
        reconstructions.frame(Path("run"))
    assert refusal.value.sentence == "no images were reconstructed from run"
    assert refusal.value.hint == "fedcli audit run"
