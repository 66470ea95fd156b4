"""`evaluate --on`: test images of another hospital, dataset or division; `partition --hold-out`; `--cross-site`."""

import published_schema
import pytest
from hospitals import prepared, write_hospitals
from typer.testing import CliRunner

import fedcli
from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.reporting import page, single_runs
from fedcli.scores import predictions
from fedcli.scores.scores import RunScores


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def dataset(work):
    raw = write_hospitals(work / "raw")
    return prepared(raw, work)


@pytest.fixture(scope="module")
def held_out(dataset, work):
    return fedcli.partition(dataset, by=["hospital"], hold_out="south", val=0.2, work=work)


@pytest.fixture(scope="module")
def run(held_out, work):
    return fedcli.train("fedavg", held_out, rounds=1, work=work)


@pytest.fixture(scope="module")
def other(work):
    """Another hospital, whose classes have other names and another order, and one more."""
    classes = "sick", "unclear", "well"
    raw = write_hospitals(work / "other", classes=classes, hospitals=("west",), count=60, seed=1)
    return prepared(
        raw,
        work,
    )


def table(folder, *lines):
    path = folder / "classes.csv"
    path.write_text("\n".join(["theirs,ours", *lines]) + "\n")
    return path


MAPPED = "sick,ill", "unclear,", "well,healthy"


def test_a_held_out_site_trains_nothing_and_all_its_images_are_the_test_images(
    held_out, dataset, run
):
    outcome = [client["client"] for client in held_out.body["roster"]]
    assert outcome == ["east", "north"]
    expected = {"attribute": "hospital", "value": "south", "images": 30}
    assert held_out.body["held_out"] == expected
    scored = fedcli.evaluate(run)
    groups = scored.body["groups"]["hospital"]["clean"]["last_round"]["groups"]
    result = {name: group["count"] for name, group in groups.items()}
    assert result == {
        "east": 0,
        "north": 0,
        "south": 30,
    }
    assert "external" not in scored.body


def test_the_datasets_own_test_part_is_scored_beside_it_and_equals_the_groups_by_hand(run, dataset):
    scored = fedcli.evaluate(run, on=dataset, by=["hospital"])
    body = scored.body
    expected = dataset.body["split"]["test"]
    assert body["external"]["images"] == expected
    assert body["external"]["left_out"] == 0
    expected = {manifest.sha256(path) for path in (run.path, dataset.path)}
    assert set(scored.manifest.parents.values()) == expected
    predicted = predictions.read(scored.path.parent / "predictions.h5")
    in_east = predicted.groups["hospital"] == body["attributes"]["hospital"].index("east")
    right = (predicted.logits["clean"][1].argmax(1) == predicted.y)[in_east].mean()
    by_site = body["groups"]["hospital"]["clean"]["each"]["accuracy"]
    assert by_site["east"]["last"] == pytest.approx(right)
    assert "not on the run's own" in body["warning"]


def test_classes_of_another_dataset_are_paired_by_a_table(run, other, tmp_path):
    map_classes = table(tmp_path, *MAPPED)
    scored = fedcli.evaluate(run, on=other, map_classes=map_classes, all_images=True)
    external = scored.body["external"]
    assert not published_schema.errors(scored)
    result = (external["images"], external["left_out"], external["part"])
    assert result == (40, 20, "all")
    predicted = predictions.read(scored.path.parent / "predictions.h5")
    theirs = {f"{k:03d}.png": k % 3 for k in range(60)}
    expected = [{0: 1, 2: 0}[theirs[name]] for name in predicted.id]
    assert predicted.y.tolist() == expected
    result = scored.body["attributes"]["hospital"]
    assert result == ["east", "north", "south", "west"]
    map_classes = table(tmp_path, *MAPPED)
    result = fedcli.evaluate(run, on=other, map_classes=map_classes).body["external"]["part"]
    assert result == "test"


def test_another_division_and_its_corruption_are_scored(run, dataset, work):
    everyone = fedcli.partition(dataset, by=["hospital"], work=work)
    noisy = fedcli.corrupt(everyone, "gaussian", on=["north"], work=work, jobs=1)
    scored = fedcli.evaluate(run, on=noisy)
    result = set(scored.body["versions"])
    assert result == {"clean", "corrupted", "average"}
    assert scored.body["external"]["kind"] == "corruption"
    result = {client["part"] for client in scored.body["clients"].values()}
    assert result == {"whole"}


def test_a_report_keeps_scores_on_other_images_in_a_row_of_their_own(run, dataset, tmp_path):
    paths = [fedcli.evaluate(run).path, fedcli.evaluate(run, on=dataset).path]
    frame = fedcli.report(paths).to_frame()
    assert len(frame) == 2
    outcome = frame["method"].str.contains("tested on").sum()
    assert outcome == 1
    result = page.write(tmp_path / "page.html", paths).read_text(encoding="utf-8")
    assert "not on the run" in result


NOT_PAIRED = [
    (None, "has the class 'sick', which the run does not have"),
    (MAPPED[:2], "no line for the class 'well'"),
    ((*MAPPED, "sick,ill"), "'sick' is named twice"),
    (("sick,il", *MAPPED[1:]), "'il' is no class of the run"),
    (("sik,ill", *MAPPED), "'sik' is no class of"),
    (("sick,", "unclear,", "well,"), "holds no test image of the run's classes"),
]


@pytest.mark.parametrize(("lines", "sentence"), NOT_PAIRED)
def test_classes_that_cannot_be_paired_are_refused_by_name(run, other, tmp_path, lines, sentence):
    with pytest.raises(FedcliError, match=sentence) as error:
        map_classes = lines and table(tmp_path, *lines)
        fedcli.evaluate(run, on=other, map_classes=map_classes)
    assert error.value.hint


def test_images_that_trained_are_no_test_images(run, dataset):
    with pytest.raises(FedcliError, match=r"trained or validated on \d+ images"):
        fedcli.evaluate(run, on=dataset, all_images=True)


def test_images_of_another_size_are_refused_and_flags_without_a_meaning_too(
    run, dataset, held_out, work
):
    raw = work / "raw"
    larger = fedcli.prepare("images", raw=raw, size=16, patient="patient", work=work, jobs=1)
    with pytest.raises(FedcliError, match="images of 16 px, the run's network takes 8 px"):
        fedcli.evaluate(run, on=larger)
    for flags in (
        {"all_images": True},
        {"on": held_out, "all_images": True},
        {"on": dataset, "cross_site": True},
    ):
        with pytest.raises(UsageError):
            fedcli.evaluate(run, **flags)


def test_an_attribute_that_the_other_images_lack_is_refused(run, other, tmp_path):
    with pytest.raises(UsageError, match="has no attribute '1'"):
        map_classes = table(tmp_path, *MAPPED)
        fedcli.evaluate(run, on=other, map_classes=map_classes, by=["1"])


def test_a_site_that_there_is_not_is_refused(dataset, work):
    for site, sentence in (("sout", "hospital is never 'sout'"), ("sex=x", "sex is never 'x'")):
        with pytest.raises(UsageError, match=sentence):
            fedcli.partition(dataset, hold_out=site, work=work)
    women = fedcli.partition(dataset, hold_out="sex=female", work=work)
    assert women.body["held_out"]["value"] == "female"


def test_every_clients_model_is_scored_on_every_clients_test_part(dataset, work, tmp_path):
    everyone = fedcli.partition(dataset, by=["hospital"], work=work)
    alone = fedcli.train("fedavg", everyone, rounds=1, single_site=True, work=work)
    scored = fedcli.evaluate(alone, cross_site=True)
    cells = scored.body["cross_site"]
    assert not published_schema.errors(scored)
    assert set(cells) == {"north", "east", "south"}
    clients = scored.body["clients"]
    for client in cells:
        expected = clients[client]["accuracy"]["last"]
        assert cells[client][client]["accuracy"] == expected
    result = len({cells["north"][client]["count"] for client in cells} | {0})
    assert result > 1
    table, other_table = single_runs.cross_site([("", RunScores.read(scored.path))])
    result = [row[0].text for row in table.rows]
    assert result == sorted(cells)
    assert len(other_table.columns) == 4
    outcome = page.write(tmp_path / "page.html", [scored.path]).read_text(encoding="utf-8")
    assert "Trained at and tested on" in outcome
    fedcli_run = fedcli.train("fedavg", everyone, rounds=1, work=work)
    with pytest.raises(UsageError, match="compares clients' own models"):
        fedcli.evaluate(fedcli_run, cross_site=True)


def test_the_command_line_says_what_was_scored(run, dataset):
    ended = CliRunner().invoke(app, ["evaluate", str(run), "--on", str(dataset)])
    assert ended.exit_code == 0, ended.stderr
    assert (
        f"scored on {dataset.body['split']['test']} test images of the dataset 'images'"
        in ended.stderr
    )
