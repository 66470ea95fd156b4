"""A model that was trained at sites, used at one of them: on its test images, on new files, as a file."""

import json

import pytest
from hospitals import HOSPITALS, prepared, write_hospitals
from made_plans import train
from site_federation import OPEN, plan, reached, sites_of, train_at

import fedcli
from fedcli.comparison.systems import read
from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.figures.figure import NothingToDraw
from fedcli.figures.kinds import flow
from fedcli.figures.system import System
from fedcli.reporting import single_runs
from fedcli.reporting.cards import cards
from fedcli.reporting.page import provenance
from fedcli.reporting.rows import rows
from fedcli.runs.finished import open_run
from fedcli.scores.clinical.chosen import site_of
from fedcli.scores.deploy import model_file
from fedcli.scores.evaluate import data_of_sites
from fedcli.scores.evaluation_options import EvaluateOptions
from fedcli.scores.scores import RunScores
from fedcli.sites.description import PARTS, describe
from fedcli.sites.roster import gathered
from fedcli.stages.collect import scores_of_all
from fedcli.stages.evaluate import run as evaluate_stage


@pytest.fixture
def data(tmp_path):
    """A partition by hospital, with validation images."""
    dataset = prepared(write_hospitals(tmp_path / "raw"), tmp_path)
    return fedcli.partition(dataset, by=["hospital"], val=0.3, work=tmp_path).path


def at_sites(data, tmp_path, **more):
    """The sites, and a run of a coordinator that knows their descriptions alone."""
    sites = sites_of(data, tmp_path / "sites", HOSPITALS, policy=OPEN)
    folder = tmp_path / "described"
    folder.mkdir(parents=True, exist_ok=True)
    for client in sites:
        description = json.dumps(describe(data, client, client))
        (folder / f"{client}.json").write_text(description)
    federation = gathered([folder], tmp_path)
    return sites, train_at(sites, federation, plan(**more), tmp_path, out=tmp_path / "run")


def test_new_files_get_the_probabilities_of_a_run_with_all_images_at_hand(data, tmp_path):
    _, run = at_sites(data, tmp_path)
    usual = train(data, plan(), work=tmp_path, out=tmp_path / "usual")
    files = sorted((tmp_path / "raw").glob("*.png"))[:6]
    options = {"positive": ["ill"], "rule": ["sensitivity=0.9"]}
    expected = fedcli.predict(usual, files, **options)
    prediction = fedcli.predict(run, files, data=data, **options)
    assert prediction.to("json") == expected.to("json")
    assert len(prediction.predicted.operating) == 1
    with pytest.raises(FedcliError, match="images that are at their sites") as raised:
        fedcli.predict(run, files)
    assert "--data" in raised.value.hint
    assert "--on" in raised.value.hint
    with pytest.raises(UsageError, match="are here, and no site's"):
        fedcli.predict(usual, files, data=data)
    path = model_file.export(open_run(run, images=data), "torchscript", tmp_path / "exported")
    result = json.loads(path.with_name("model.json").read_text())["preprocessing"]["size"]
    assert result == 8


def test_one_site_scores_its_own_images_as_others_that_the_run_has_not_seen(data, tmp_path):
    _, run = at_sites(data, tmp_path)
    usual = fedcli.evaluate(
        train(data, plan(), work=tmp_path, out=tmp_path / "usual"), clinical=True
    )
    evaluated = evaluate_stage(EvaluateOptions(run, on=data, clinical=True, work=tmp_path))
    scores = RunScores.read(evaluated.path)
    expected = RunScores.read(usual.path)
    assert scores.versions == expected.versions
    assert scores.groups == expected.groups
    ill, as_known = (
        scores_read.clinical["classes"]["ill"]["clean"] for scores_read in (scores, expected)
    )
    assert ill["overall"] == as_known["overall"]
    assert ill["groups"] == as_known["groups"]
    assert scores.roster_size == 3
    assert scores.external.images == expected.images
    assert scores.shots is None
    system = System(scored=read([evaluated.path]))
    result = scores.data["partition"].options["sites"].keys()
    assert result == set(HOSPITALS)
    with pytest.raises(NothingToDraw):
        flow.frame(system)
    (table,) = provenance.table_one(run)  # as the sites described their images
    sites_over = {column.over for column in table.columns if column.over}
    assert sites_over == set(HOSPITALS)
    assert "hidden: few images" in table.legend
    for options in ({"shots": "9,3"}, {"corrupt": ["gaussian"]}):
        with pytest.raises(UsageError, match="is at its sites"):
            evaluate_stage(EvaluateOptions(run, on=data, work=tmp_path, **options))


def test_images_of_another_form_and_models_of_clients_are_refused(data, tmp_path):
    _, run = at_sites(data, tmp_path)
    larger = fedcli.partition(
        prepared(tmp_path / "raw", tmp_path, size=16), by=["hospital"], work=tmp_path
    )
    with pytest.raises(FedcliError, match=r"has the size \[16, 16\], the run's sites \[8, 8\]"):
        fedcli.predict(run, [tmp_path / "raw" / "000.png"], data=larger.path)
    _, personal = at_sites(data, tmp_path / "own", method="fedbn")
    with pytest.raises(FedcliError, match="is at its site"):
        fedcli.predict(personal, [tmp_path / "raw" / "000.png"], data=data)


def test_a_run_that_began_from_one_with_images_does_not_take_those(data, tmp_path):
    usual = train(data, plan(), work=tmp_path, out=tmp_path / "usual")
    _, run = at_sites(data, tmp_path, weights=str(usual.parent))
    assert manifest.parent(run, "partition")
    with pytest.raises(FedcliError, match="images that are at their sites"):
        fedcli.predict(run, [tmp_path / "raw" / "000.png"])


def test_a_report_takes_what_sites_said_of_some_attributes_and_says_what_intervals_are_over(
    data, tmp_path, monkeypatch
):
    sites, run = at_sites(data, tmp_path)
    reached(monkeypatch, sites)
    evaluated = evaluate_stage(EvaluateOptions(run, by=("sex",), work=tmp_path, engine="here:x"))
    assert scores_of_all([run], EvaluateOptions()) == [evaluated.path]
    with pytest.raises(FedcliError, match="are at its sites"):
        scores_of_all([run], EvaluateOptions(by=["hospital"]))
    legend = " ".join(single_runs.legend(RunScores.read(evaluated.path)))
    assert "of the images, which sites count" in legend
    assert "of the patients" not in legend


def test_a_threshold_of_one_hospital_is_not_used_at_another(data, tmp_path, capsys):
    _, run = at_sites(data, tmp_path)
    other = fedcli.partition(
        manifest.above(data, "dataset"), by=["hospital"], val=0.4, work=tmp_path
    ).path
    options = {"clinical": True, "positive": ["ill"], "rule": ["youden"]}
    scored = fedcli.evaluate(run, on=other, work=tmp_path, **options)
    files = sorted((tmp_path / "raw").glob("*.png"))[:2]
    (point,) = fedcli.predict(run, files, data=other).predicted.operating
    assert point.sha256 == manifest.sha256(other)
    assert point.recorded["data_sha256"] == point.sha256
    capsys.readouterr()
    assert fedcli.predict(run, files, data=data).predicted.operating == []
    err = capsys.readouterr().err
    assert f"chosen on validation images of {point.source}" in err
    assert "no decision" in err
    path = model_file.export(open_run(run, images=data), "torchscript", tmp_path / "exported")
    sidecar = json.loads(path.with_name("model.json").read_text())
    assert sidecar["operating_points"] is None
    chosen = fedcli.predict(run, files, data=data, positive=["ill"], rule=["youden"])
    assert chosen.predicted.operating[0].sha256 == manifest.sha256(data)
    card = cards(rows([scored.path])[0])[0].markdown
    assert point.source in card
    assert "No threshold was chosen" not in card


def test_a_site_gives_its_name_to_the_thresholds_of_its_data():
    sites = {"data": {"vienna": "a" * 64, "graz": "b" * 64}}
    result = site_of(sites, "images", "b" * 64)
    assert result == ("graz", "b" * 64)
    result = site_of(sites, "images", "c" * 64)
    assert result == ("images", "c" * 64)
    shared = {"data": {"vienna": "a" * 64, "graz": "a" * 64}}
    result = site_of(shared, "images", "a" * 64)
    assert result == ("images", "a" * 64)


def test_table_1_of_sites_has_the_shares_of_all_images_and_calls_cells_hidden(data, tmp_path):
    _, run = at_sites(data, tmp_path)
    (table,) = provenance.table_one(run)
    result = [column.name for column in table.columns[1:]]
    assert result == [*PARTS] * len(HOSPITALS)
    assert all(table.numeric[1:])
    hidden = 0
    for number, column in enumerate(table.columns[1:], 1):
        site = json.loads((tmp_path / "described" / f"{column.over}.json").read_text())
        total = site["images"][column.name]
        assert table.rows[0][number].text == str(total)
        for row in table.rows[1:]:
            name, _, value = row[0].text.partition(": ")
            count = site["counts"][name][column.name].get(value, 0)
            expected = "hidden"
            if count is None:
                hidden += 1
            else:
                expected = f"{count} ({100 * count / total:.1f})"
            assert row[number].text == expected
    assert hidden


def test_the_data_of_sites_are_the_same_under_another_policy(data, tmp_path):
    stages = []
    for smallest in (1, 8):
        folder = tmp_path / f"described-{smallest}"
        folder.mkdir()
        for client in HOSPITALS:
            description = describe(data, client, client, smallest)
            (folder / f"{client}.json").write_text(json.dumps(description))
        stages.append(gathered([folder], tmp_path))
    assert stages[0] != stages[1]
    assert data_of_sites(stages[0]) == data_of_sites(stages[1])
