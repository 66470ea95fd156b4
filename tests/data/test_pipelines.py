"""Training augmentation by an albumentations pipeline from a file."""

import json
import os
import sys

import albumentations as A
import forked
import pytest
import torch
from conftest import make_chain

import fedcli
from fedcli.data import pipelines, transforms
from fedcli.errors import FedcliError

PIPELINE = A.Compose(
    [A.HorizontalFlip(p=0.5), A.Affine(rotate=(-45, 45), p=1), A.RandomBrightnessContrast(p=1)]
)


def save(folder, pipeline=PIPELINE, name="augment.yaml"):
    path = folder / name
    data_format = "json" if name.endswith("json") else "yaml"
    A.save(pipeline, str(path), data_format=data_format)
    return path


def test_yaml_and_json_are_the_same_pipeline_and_an_image_depends_on_its_own_numbers_alone(
    tmp_path,
):
    kind = pipelines.read(save(tmp_path))
    expected = pipelines.read(save(tmp_path, name="augment.json"))
    assert kind == expected
    stream = torch.Generator().manual_seed(1)
    x = torch.randint(0, 256, (6, 3, 24, 24), dtype=torch.uint8, generator=stream)
    chance = torch.rand(6, 4, generator=stream)
    whole = transforms.augment(x, kind, chance)
    assert whole.shape == x.shape
    assert whole.dtype == torch.uint8
    assert (whole != x).any()
    alone = torch.cat([transforms.augment(x[[k]], kind, chance[[k]]) for k in range(5, -1, -1)])
    assert torch.equal(alone.flip(0), whole)
    result = transforms.augment(x, kind, chance.flip(0))
    assert not torch.equal(result, whole)


def test_a_batch_without_images_stays_one(tmp_path):
    none = torch.zeros(0, 3, 4, 6, dtype=torch.uint8)
    kind = pipelines.read(save(tmp_path))
    chance = torch.zeros(0, 4)
    changed = pipelines.augment(none, kind, chance)
    assert changed.shape == none.shape
    assert changed.dtype == torch.uint8


def test_what_is_made_ahead_comes_in_order_and_an_error_is_raised():
    items = iter(range(20))
    result = list(pipelines.ahead(lambda n: n * n, items))
    expected = [n * n for n in range(20)]
    assert result == expected
    with pytest.raises(ZeroDivisionError):
        list(pipelines.ahead(lambda n: 1 // n, [1, 0]))


def test_engines_and_a_resumed_run_train_the_same_bytes_also_without_the_file(tmp_path):
    data = make_chain(tmp_path)
    path = save(tmp_path)
    runs = [
        fedcli.train(
            "fedavg",
            data,
            rounds=2,
            augment=path,
            engine=engine,
            work=tmp_path,
            out=tmp_path / engine[:4],
        )
        for engine in ("in-process", "pool:2")
    ]
    plain = fedcli.train("fedavg", data, rounds=2, augment="none", work=tmp_path)
    models = [(run.path.parent / "models" / "00002.h5").read_bytes() for run in (*runs, plain)]
    assert models[0] == models[1] != models[2]
    assert runs[0].manifest.options["augment"].startswith("pipeline:")
    assert str(tmp_path) not in json.dumps(runs[0].manifest.made_by)


CONNECTED = """
import socket, sys
def heard(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        print(event, args[-1], flush=True)
sys.addaudithook(heard)
from pathlib import Path
from fedcli.data import pipelines
from fedcli.data.sources.formats import photographs
{door}
assert "albumentations" in sys.modules
"""


@pytest.mark.parametrize(
    "door", ["pipelines.read(Path('augment.yaml'))", "photographs.pipeline(8, 'pad', True, True)"]
)
def test_no_newer_version_is_asked_for(tmp_path, door):
    save(tmp_path)

    def work():
        os.environ.pop("NO_ALBUMENTATIONS_UPDATE", None)
        for name in [name for name in sys.modules if name.partition(".")[0] == "albumentations"]:
            del sys.modules[name]
        exec(CONNECTED.format(door=door), {})

    ended = forked.run(work, tmp_path, anew=True)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def lambda_file(folder):
    body = A.to_dict(PIPELINE)
    body["transform"]["transforms"].append(
        {"__class_fullname__": "HorizontalFlip", "__type__": "Lambda"}
    )
    (folder / "x.json").write_text(json.dumps(body))


BAD = {
    "no such file": lambda folder: None,
    "is no readable pipeline": lambda folder: (folder / "x.json").write_text("{"),
    "has no transform": lambda folder: (folder / "x.json").write_text("[1]"),
    "os.system is no transform of albumentations": lambda folder: (folder / "x.json").write_text(
        json.dumps({"transform": {"__class_fullname__": "os.system", "command": "true"}})
    ),
    "is no transform of": lambda folder: (folder / "x.json").write_text(
        json.dumps({"transform": {"__class_fullname__": [None]}})
    ),
    "cannot be built": lambda folder: (folder / "x.json").write_text(
        json.dumps(
            {"transform": {"__class_fullname__": "HorizontalFlip", "nonsense": {}, "p": "x"}}
        )
    ),
    "a Lambda holds code": lambda_file,
}


@pytest.mark.parametrize("sentence", BAD)
def test_a_file_that_is_no_pipeline_is_refused(tmp_path, sentence):
    BAD[sentence](tmp_path)
    with pytest.raises(FedcliError, match=sentence) as error:
        pipelines.read(tmp_path / "x.json")
    assert error.value.hint
    assert len(error.value.sentence) < 400


def test_yaml_that_would_call_python_is_refused(tmp_path):
    (tmp_path / "x.yaml").write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(FedcliError, match="is no readable pipeline"):
        pipelines.read(tmp_path / "x.yaml")


LEVELS = "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 10))
MERGED = "".join(f"a{k}: &a{k} {{<<: [{', '.join([f'*a{k - 1}'] * 9)}]}}\n" for k in range(1, 10))
BOMBS = {
    "aliases": ("x.yaml", f"a0: &a0 [x]\n{LEVELS}", "with its aliases written out"),
    "merges": ("x.yaml", f"a0: &a0 {{x: 1}}\n{MERGED}", "with its aliases written out"),
    "itself": ("x.yaml", "transform: &a [*a]", "with its aliases written out"),
    "depth": ("x.yaml", "[" * 1000, "is no readable pipeline"),
    "nothing": ("x.yaml", "", "has no transform"),
    "some depth": (
        "x.yaml",
        "transform: {a: " + "[" * 60 + "]" * 60 + "}",
        "nests more than 50 deep",
    ),
    "depth of JSON": (
        "x.json",
        '{"transform": {"a": ' + "[" * 900 + "]" * 900 + "}}",
        "nests more than 50 deep",
    ),
    "size": ("x.yaml", "#" * 300_000, "has more than 262144 bytes"),
}


@pytest.mark.parametrize(("name", "text", "words"), BOMBS.values(), ids=BOMBS)
def test_a_file_that_grows_when_it_is_read_is_refused(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(FedcliError, match=words):
        pipelines.read(tmp_path / name)


def test_an_alias_is_read(tmp_path):
    text = (
        save(tmp_path)
        .read_text()
        .replace("p: 1.0\n", "p: &one 1.0\n", 1)
        .replace("p: 1.0\n", "p: *one\n", 1)
    )
    (tmp_path / "alias.yaml").write_text(text)
    assert "*one" in text
    assert json.loads(pipelines.read(tmp_path / "alias.yaml").removeprefix(pipelines.PREFIX))


@pytest.mark.parametrize(
    ("transform", "words"), [(A.Resize(8, 8), "leave out transforms"), (A.Normalize(), "leave out")]
)
def test_a_pipeline_that_changes_size_or_kind_of_the_images_is_refused(tmp_path, transform, words):
    pipeline = A.Compose([transform])
    kind = pipelines.read(save(tmp_path, pipeline))
    with pytest.raises(FedcliError) as error:
        chance = torch.rand(1, 4)
        transforms.augment(torch.zeros(1, 3, 16, 16, dtype=torch.uint8), kind, chance)
    assert words in error.value.hint
