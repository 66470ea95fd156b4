import json
import multiprocessing
import os
import re

import numpy as np
import pytest
from conftest import make_chain

from fedcli.data import last_used, manifest
from fedcli.data.skew import describe
from fedcli.errors import FedcliError, HashError
from fedcli.io import files
from fedcli.stages.results import Dataset

BODY = {
    "classes": [],
    "attributes": {},
    "size": [8, 8],
    "channels": 1,
    "augment": "none",
    "name": "toy",
    "count": 1,
    "split": {},
    "unit": None,
    "sites": None,
}


def made(tmp_path, name="one", options=None, parents=(), text="hello"):
    def build(folder):
        (folder / "pool.h5").write_text(text)
        return BODY

    return manifest.stage(
        "dataset",
        folder=tmp_path / name,
        made_by=["prepare", "toy"],
        options=options or {},
        parents=list(parents),
        build=build,
    )


def test_the_same_stage_writes_the_same_bytes(tmp_path):
    expected = made(tmp_path / "b").read_bytes()
    result = made(tmp_path / "a").read_bytes()
    assert result == expected


def test_a_manifest_holds_no_path_of_this_machine(tmp_path):
    path = make_chain(tmp_path, corrupted=True)
    for text in (p.read_text() for p in tmp_path.rglob("*.json")):
        assert str(tmp_path) not in text
    result = list(manifest.read(path).parents)
    assert result == ["../../partitions/made/partition.json"]


def test_a_chain_can_be_moved_as_a_whole(tmp_path):
    work = tmp_path / "old"
    made_path = make_chain(work, corrupted=True)
    (tmp_path / "old").rename(tmp_path / "new")
    path = tmp_path / "new" / made_path.relative_to(tmp_path / "old")
    result = manifest.verify(path).kind
    assert result == "corruption"


def test_an_equal_stage_is_not_made_again(tmp_path, capsys):
    inode = made(tmp_path).stat().st_ino
    result = made(tmp_path, text="other").stat().st_ino
    assert result == inode
    assert "already made" in capsys.readouterr().err


def test_a_folder_with_another_result_is_refused(tmp_path):
    made(tmp_path)
    with pytest.raises(FedcliError, match="another result"):
        made(tmp_path, options={"size": 64})
    (tmp_path / "mine").mkdir()
    with pytest.raises(FedcliError, match="in use"):
        made(tmp_path, "mine")


def test_a_changed_byte_is_found_at_every_level(tmp_path):
    path = make_chain(tmp_path, corrupted=True)
    for file in list(tmp_path.rglob("*.h5")):
        good = file.read_bytes()
        file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(HashError, match=file.name) as error:
            manifest.verify(path)
        assert error.value.code == 3
        file.write_bytes(good)
    manifest.verify(path)


def test_a_changed_parent_manifest_is_found(tmp_path):
    path = make_chain(tmp_path)
    parent = tmp_path / "datasets" / "made" / "dataset.json"
    parent.write_text(parent.read_text().replace("made", "MADE"))
    with pytest.raises(HashError, match="has changed since"):
        manifest.verify(path)


@pytest.mark.parametrize("name", ["../../secret.txt", "/etc/hostname", "sub/../../secret.txt"])
def test_a_file_outside_the_folder_is_refused(tmp_path, name):
    path = made(tmp_path)
    raw = json.loads(path.read_text())
    raw["files"][name] = "0" * 64
    path.write_text(json.dumps(raw))
    with pytest.raises(FedcliError, match="outside its folder"):
        manifest.verify(path)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    path = made(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    (path.parent / "pool.h5").unlink()
    (path.parent / "pool.h5").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(FedcliError, match="outside its folder"):
        manifest.verify(path)


@pytest.mark.parametrize("name", ["/etc/passwd", "../../etc/passwd", "../pool.h5"])
def test_a_parent_that_is_no_manifest_is_refused(tmp_path, name):
    path = made(tmp_path)
    raw = json.loads(path.read_text())
    raw["parents"] = {name: "0" * 64}
    path.write_text(json.dumps(raw))
    with pytest.raises(FedcliError, match="no manifest"):
        manifest.verify(path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "dataset"}', '{"a": 1}', "\xff\xfe"])
def test_what_is_no_manifest_is_refused_with_a_sentence(tmp_path, text):
    (tmp_path / "x.json").write_text(text, encoding="latin-1")
    with pytest.raises(FedcliError, match="not a fedcli manifest"):
        manifest.read(tmp_path / "x.json")


def test_a_manifest_of_another_kind_is_refused(tmp_path):
    with pytest.raises(FedcliError, match="is a dataset manifest; this command reads run"):
        manifest.read(made(tmp_path), "run")


def test_a_time_in_the_future_makes_no_manifest_the_newest(tmp_path):
    path = made(tmp_path, "one")
    later_path = made(tmp_path, "two", {"seed": 1})
    os.utime(path, (4e9, 4e9))
    assert last_used.newest(tmp_path, "dataset") == later_path


@pytest.mark.parametrize("target", ["/etc/hostname", "nowhere", "dataset.json"])
def test_a_manifest_that_became_a_link_is_not_passed_over_for_an_older_one(tmp_path, target):
    made(tmp_path, "one")
    two = made(tmp_path, "two", {"seed": 1})
    two.unlink()
    two.symlink_to(target)
    assert last_used.newest(tmp_path, "dataset") == two


def test_the_newest_is_the_one_made_or_used_last(tmp_path):
    path = made(tmp_path, "one")
    later_path = made(tmp_path, "two")
    os.utime(path, ns=(5, 5)), os.utime(later_path, ns=(9, 9))
    assert last_used.newest(tmp_path, "dataset") == later_path
    made(tmp_path, "one")
    assert last_used.newest(tmp_path, "dataset") == path
    with pytest.raises(FedcliError, match="no run manifest"):
        last_used.newest(tmp_path, "run")


def test_of_a_chain_made_within_a_tick_of_the_clock_the_last_is_the_newest(tmp_path):
    chain = make_chain(tmp_path, corrupted=True)
    for path in tmp_path.glob("*/*/*.json"):
        os.utime(path, (1e9, 1e9))
    assert last_used.newest(tmp_path, "dataset", "partition", "corruption") == chain


def test_a_stage_that_fails_leaves_nothing(tmp_path):
    def build(folder):
        (folder / "half.h5").write_text("half")
        raise FedcliError("no")

    with pytest.raises(FedcliError):
        manifest.stage(
            "dataset", folder=tmp_path / "one", made_by=[], options={}, parents=[], build=build
        )
    assert list(tmp_path.iterdir()) == []


def _die_in_build(folder):
    def build(temporary):
        (temporary / "half.h5").write_text("half")
        os._exit(9)

    manifest.stage("dataset", folder=folder, made_by=[], options={}, parents=[], build=build)


def test_leftovers_of_a_killed_stage_are_removed_by_the_next(tmp_path):
    child = multiprocessing.get_context("fork").Process(
        target=_die_in_build, args=(tmp_path / "one",)
    )
    child.start()
    child.join()
    result = {p.suffix for p in tmp_path.iterdir() if p.name.startswith(".one.")}
    assert result == {".lock", ".tmp"}
    made(tmp_path)
    result = [p.name for p in tmp_path.iterdir()]
    assert result == ["one"]


def damage(path):
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    "how", [damage, lambda path: path.unlink(), lambda path: path.write_bytes(b"")]
)
def test_a_damaged_result_is_made_again_and_files_of_others_beside_it_stay(tmp_path, how, capsys):
    path = made(tmp_path)
    good = path.read_bytes()
    (path.parent / "notes.txt").write_text("mine")
    (path.parent / "runs").mkdir()
    (path.parent / "runs" / "weeks.h5").write_text("of work")
    how(path.parent / "pool.h5")
    assert made(tmp_path).read_bytes() == good
    assert manifest.verify(path)
    assert (path.parent / "notes.txt").read_text() == "mine"
    result = (path.parent / "runs" / "weeks.h5").read_text()
    assert result == "of work"
    assert capsys.readouterr().err.count("making it again") == 1
    result = sorted(entry.name for entry in tmp_path.iterdir())
    assert result == ["one"]


def test_a_stop_while_a_damaged_result_is_replaced_costs_nothing(tmp_path, monkeypatch):
    path = made(tmp_path)
    damage(path.parent / "pool.h5")
    real = os.replace
    calls = []

    def stop(source, target):
        calls.append(target)
        if len(calls) == 2:  # the new file is there, its manifest is not
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, text="hello")
    monkeypatch.undo()
    assert manifest.verify(made(tmp_path))


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("files", {}, "does not list pool.h5"),
        ("files", {"dataset.json": "0" * 64, "pool.h5": "0" * 64}, "lists itself"),
        ("files", {"pool.h5": 3}, "files.pool.h5 is '3', not text"),
        ("made_by", "prepare", "made_by is 'prepare', not a list"),
        ("options", [], "options is"),
        ("body", {"classes": 3}, "body.classes is '3', not a list"),
        ("body", {}, "body.classes is missing"),
        ("kind", ["dataset"], "its kind is"),
        ("format", True, "format is 'True', not a whole number"),
        (
            "body",
            {"classes": [], "attributes": {}, "size": [10**400]},
            "body.size[0] is 1000000000..., a number too",
        ),
    ],
)
def test_a_manifest_that_was_edited_is_refused_by_its_shape(tmp_path, key, value, word):
    path = made(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(FedcliError, match=re.escape(word)):
        manifest.verify(path)


def test_a_kill_after_the_rename_leaves_no_lock_once_the_command_is_typed_again(tmp_path):
    arguments = {
        "folder": tmp_path / "made",
        "made_by": [],
        "options": {},
        "parents": [],
        "build": lambda folder: {"classes": []},
    }
    manifest.stage("scores", **arguments)
    abandoned = [tmp_path / ".made.0123abcd.lock", tmp_path / ".made.renaming.lock"]
    for lock in abandoned:
        lock.touch()
    manifest.stage("scores", **arguments)
    for lock in abandoned:
        assert not lock.exists()


def test_zero_bytes_are_a_sentence(tmp_path):
    path = made(tmp_path)
    path.write_text(path.read_text().replace('"kind": "dataset"', '"kind": "dataset\\u0000"'))
    with pytest.raises(FedcliError, match="it holds zero bytes"):
        manifest.read(path)


def test_files_of_other_names_beside_a_result_stay(tmp_path):
    user_files = [tmp_path / ".one.lock", tmp_path / ".one.tmp" / "notes"]
    user_files[1].parent.mkdir()
    for path in user_files:
        path.write_text("mine")
    made(tmp_path)
    made(tmp_path)
    result = [path.read_text() for path in user_files]
    assert result == ["mine", "mine"]


def test_numbers_about_skew_are_numbers(tmp_path):
    path = manifest.above(make_chain(tmp_path, corrupted=True), "partition")
    body = json.loads(path.read_text())
    skew = describe(["a", "b"], [np.arange(3), np.arange(3, 6)], np.arange(6) % 2, 2)
    path.write_text(json.dumps(body | {"body": body["body"] | {"skew": skew}}))
    manifest.read(path)
    path.write_text(
        json.dumps(body | {"body": body["body"] | {"skew": skew | {"entropy_nats": "a"}}})
    )
    with pytest.raises(FedcliError, match="entropy_nats"):
        manifest.read(path)


def test_a_manifest_is_read_anew_once_it_has_changed(tmp_path, monkeypatch):
    path = made(tmp_path)
    assert manifest.read(path).body["name"] == "toy"
    path.write_text(path.read_text().replace('"toy"', '"new"'))  # at once, to as many bytes
    assert manifest.read(path).body["name"] == "new"
    monkeypatch.setattr(files, "SETTLED", -1)  # as if long ago
    assert manifest.read(path) is manifest.read(path)
    path.write_text(path.read_text().replace('"new"', '"old"'))
    os.utime(path, (1e9 + 1, 1e9 + 1))
    assert manifest.read(path).body["name"] == "old"
    with pytest.raises(FedcliError, match="this command reads run"):
        manifest.read(path, "run")


def test_what_a_program_writes_into_its_copy_is_seen_by_nobody_else(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SETTLED", -1)  # so that manifests are remembered
    path = made(tmp_path)
    Dataset(path).body["name"] = "mine"
    assert Dataset(path).body["name"] == manifest.read(path).body["name"] == "toy"


def test_a_folder_without_a_result_is_no_folder_of_several(tmp_path):
    with pytest.raises(FedcliError, match=r"holds no run\.json or scores\.json") as error:
        manifest.find(tmp_path, "run", "scores")
    assert "fedcli ls" in error.value.hint
    assert "found: none" not in str(error.value)
