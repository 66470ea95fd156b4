"""Predictions as a table, as CSV, as JSON and as a frame, of answers that are made up."""

import json

import numpy as np
import pytest

from fedcli.scores.deploy.operating import OperatingPoint
from fedcli.scores.deploy.predict import Predicted
from fedcli.stages import predict as stage
from fedcli.stages.predict import Prediction

FILES = ["a.png", "b.png"]
CHANCES = np.array([[0.75, 0.25], [0.125, 0.875]])
POINT = {"name": "ill by youden", "threshold": 0.5, "source": "all clients"}


def predicted(**changed):
    facts = {
        "files": FILES,
        "classes": ["ill", "well"],
        "chances": CHANCES,
        "unreadable": [],
        "foreign": ["", ""],
    }
    return Prediction(Predicted(**facts | changed))


class Point:
    """An operating point that decides for a class from half on."""

    name = "ill by youden"
    threshold = 0.5
    source = "all clients"
    recorded = POINT

    def decide(self, chances, classes):
        return [bool(chance >= self.threshold) for chance in chances[:, classes.index("ill")]]


def test_csv_has_a_line_for_each_file():
    assert predicted().to("csv") == (
        "file,prob_ill,prob_well,class,foreign,unreadable\n"
        "a.png,0.75,0.25,ill,,\n"
        "b.png,0.125,0.875,well,,\n"
    )


def test_an_operating_point_adds_its_decision_threshold_and_source():
    assert predicted(operating=[Point()]).to("csv") == (
        "file,prob_ill,prob_well,class,ill by youden,threshold of ill by youden,"
        "thresholds_chosen_on,foreign,unreadable\n"
        "a.png,0.75,0.25,ill,yes,0.5,validation images of all clients,,\n"
        "b.png,0.125,0.875,well,no,0.5,validation images of all clients,,\n"
    )


def test_no_decision_is_made_on_an_image_that_is_foreign():
    foreign = predicted(operating=[Point()], foreign=["it is in colour", ""])
    frame = foreign.to_frame()
    assert frame["ill by youden"].isna().tolist() == [True, False]
    assert frame["ill by youden"][1] == "no"
    assert frame["class"].tolist() == ["ill", "well"]
    assert frame["foreign"].isna().tolist() == [False, True]
    assert frame["foreign"][0] == "it is in colour"


def test_a_file_that_cannot_be_read_is_the_last_line_and_a_sentence():
    result = predicted(unreadable=[("c.png", "no such file")])
    *_, last = result.to("csv").splitlines()
    assert last == "c.png,,,,,no such file"
    assert result.words() == ["c.png: no such file"]
    assert "c.png: no such file" in repr(result)


def test_bytes_that_are_no_text_are_written_as_such():
    name = b"scan-\xff.png".decode("utf-8", "surrogateescape")
    result = predicted(files=["a.png", name], unreadable=[(name, "no such file")])
    assert "scan-\\xff.png,0.125" in result.to("csv")
    assert result.words() == ["scan-\\xff.png: no such file"]


def test_json_has_probabilities_by_class_and_what_cannot_be_read():
    result = predicted(unreadable=[("c.png", "no such file")])
    assert json.loads(result.to("json")) == {
        "classes": ["ill", "well"],
        "operating_points": [],
        "predictions": [
            {
                "file": "a.png",
                "class": "ill",
                "probabilities": {"ill": 0.75, "well": 0.25},
                "foreign": None,
            },
            {
                "file": "b.png",
                "class": "well",
                "probabilities": {"ill": 0.125, "well": 0.875},
                "foreign": None,
            },
        ],
        "unreadable": [{"file": "c.png", "why": "no such file"}],
    }


def test_json_has_the_decisions_of_operating_points_by_name():
    contents = json.loads(predicted(operating=[Point()], foreign=["", "colour"]).to("json"))
    assert contents["operating_points"] == [POINT]
    assert [line["at"] for line in contents["predictions"]] == [
        {"ill by youden": True},
        {"ill by youden": None},
    ]
    assert contents["predictions"][1]["foreign"] == "colour"


def test_json_keeps_letters_of_other_alphabets():
    assert '"file": "köln.png"' in predicted(files=["köln.png", "b.png"]).to("json")


def test_several_labels_are_joined_and_no_label_is_empty():
    chances = np.array([[0.5, 0.9], [0.1, 0.2]])
    result = predicted(chances=chances, several=True)
    assert result.to_frame()["class"].tolist() == ["ill|well", ""]


def test_the_table_that_is_shown_is_that_of_the_frame():
    result = predicted(operating=[Point()])
    (table,) = result.tables()
    assert [column.name for column in table.columns] == list(result.to_frame().columns)
    assert len(table.rows) == 2


def test_the_stage_hands_on_what_was_asked(monkeypatch, tmp_path):
    asked_for = {}

    def predict(run, files, client, **options):
        asked_for.update(options, run=run, files=[file.name for file in files], client=client)
        return predicted().predicted

    monkeypatch.setattr(stage, "source", lambda run, work, kind: tmp_path / run)
    monkeypatch.setattr(stage, "open_run", lambda path, device, data: path.name)
    monkeypatch.setattr(stage.scoring, "predict", predict)
    result = stage.predict("fedavg", ["x.png"], client="north", positive="ill", rule="youden")
    assert asked_for == {
        "run": "fedavg",
        "files": ["x.png"],
        "client": "north",
        "positive": ("ill",),
        "rule": ("youden",),
        "cost": None,
    }
    assert result.predicted.files == FILES


def test_the_stand_in_has_what_an_operating_point_has():
    names = {name for name in vars(Point) if not name.startswith("_")}
    assert names <= {*dir(OperatingPoint), *OperatingPoint.__dataclass_fields__}


@pytest.mark.parametrize("format", ["csv", "json"])
def test_no_file_at_all_is_an_empty_table(format):
    result = predicted(files=[], chances=np.zeros((0, 2)), foreign=[])
    assert result.to(format).count(".png") == 0
    assert result.to_frame().empty
