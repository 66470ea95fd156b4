"""Features of a frozen network: computed once, kept in the work folder, checked when they are read."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from conftest import make_chain, toy_net, toy_shard
from made_plans import TRAINING, planned, train

from fedcli.federation.state import read_tensors, write_tensors
from fedcli.runs import features, finished
from fedcli.runs.features import FeatureTables, folder_for
from fedcli.runs.finished import open_run, predict
from fedcli.scores.deploy.foreign import Known
from fedcli.scores.evaluate import evaluate


@pytest.fixture
def images_seen(monkeypatch):
    """Numbers of images of each batch that a network computes features of."""
    sizes = []
    compute = features._of_batch

    def counted(net, images, shard):
        sizes.append(len(images))
        return compute(net, images, shard)

    monkeypatch.setattr(features, "_of_batch", counted)
    return sizes


def table_of(net, shard, folder):
    return FeatureTables(net, folder).shard(shard).images


def frozen_net(seed=0):
    net = toy_net(dropout=0.0)
    with torch.no_grad():
        next(net.backbone.parameters()).add_(seed)
    net.backbone.requires_grad_(False)
    return net


def test_runs_methods_and_evaluation_share_them(tmp_path, images_seen):
    data = make_chain(tmp_path, corrupted=True)
    for method in ("fedavg", "fedprox"):
        plan = planned(method, {}, TRAINING, 2, freeze_backbone=True)
        run = train(data, plan, work=tmp_path / "elsewhere", out=None)
        evaluate(run)
    pools = 120, 40  # all images with the corrupted ones in place, and the corrupted test images
    result = sorted(size for size in images_seen if size > features.PROBES)
    assert result == sorted(pools)
    assert folder_for(data) == tmp_path / "features"
    result = len([*(tmp_path / "features").glob("*.h5")])
    assert result == len(pools)


def test_evaluation_scores_what_the_whole_network_answers(tmp_path):
    plan = planned("fedavg", {}, TRAINING, 2, freeze_backbone=True)
    opened = open_run(train(make_chain(tmp_path), plan, work=tmp_path, out=None))
    shard = opened.data.test["clean"]
    whole = predict(replace(opened, features=None), 2, shard)
    assert predict(opened, 2, shard) == pytest.approx(whole, abs=1e-5)
    result = predict(replace(opened, features=None), 2, shard)
    expected = pytest.approx(whole, abs=0)
    assert result == expected


@pytest.mark.parametrize("method", ["fedavg", "ditto"])
def test_evaluation_passes_no_image_through_the_network_again(method, tmp_path, monkeypatch):
    plan = planned(method, {}, TRAINING, 2, freeze_backbone=True)
    run = train(make_chain(tmp_path, corrupted=True), plan, work=tmp_path, out=None)
    shapes = []
    logits = finished.logits

    def seen(net, shard, *rest):
        shapes.append(shard.images.ndim)
        return logits(net, shard, *rest)

    monkeypatch.setattr(finished, "logits", seen)
    evaluate(run)
    assert set(shapes) == {2}  # features [M, D]


def test_other_weights_and_other_images_have_a_file_of_their_own(tmp_path, images_seen):
    shard = toy_shard("north", 6)
    brighter = replace(shard, images=shard.images + 1)
    for net, pixels in ((frozen_net(), shard), (frozen_net(1), shard), (frozen_net(), brighter)):
        table_of(net, pixels, tmp_path)
    assert images_seen == [6, 6, 6]
    table_of(frozen_net(), shard, tmp_path)
    assert images_seen[3:] == [features.PROBES]


def changed(file):
    tensors = read_tensors(file)
    tensors["features"][0, 0] += 1
    write_tensors(file, tensors)


def of_other_code(file):
    tensors = read_tensors(file)
    tensors["features"] *= 2
    tensors["sha256"] = features._digest(tensors["features"])
    write_tensors(file, tensors)


def torn(file):
    file.write_bytes(file.read_bytes()[:500])


@pytest.mark.parametrize("damage", [changed, of_other_code, torn])
def test_a_damaged_file_is_computed_again(damage, tmp_path, capsys):
    net = frozen_net()
    shard = toy_shard("north", 6)
    before = table_of(net, shard, tmp_path)
    (file,) = tmp_path.glob("*.h5")
    damage(file)
    assert torch.equal(table_of(net, shard, tmp_path), before)
    assert "computed again" in capsys.readouterr().err
    assert torch.equal(read_tensors(file)["features"], before)


def test_two_commands_at_once_compute_them_once(tmp_path, images_seen):
    def command(net, shard):
        return table_of(net, shard, tmp_path)

    nets = [frozen_net(), frozen_net()]  # random numbers are drawn one after another
    with ThreadPoolExecutor(2) as commands:
        table, other_table = commands.map(command, nets, [toy_shard("north", 6)] * 2)
    assert torch.equal(table, other_table)
    assert images_seen.count(6) == 1


def test_a_folder_that_cannot_be_written_costs_a_message_alone(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    shard = toy_shard("north", 6)
    table = table_of(frozen_net(), shard, tmp_path / "file" / "features")
    assert torch.equal(table, table_of(frozen_net(), shard, None))
    assert "features are not kept in" in capsys.readouterr().err


def test_batches_fit_into_memory(monkeypatch, images_seen):
    monkeypatch.setattr(features, "PIXELS_AT_ONCE", 2 * 64)  # two images of 8 x 8 pixels
    net = frozen_net()
    shard = toy_shard("north", 5)
    small = table_of(net, shard, None)
    net.resized = 40
    assert torch.allclose(table_of(net, shard, None), small, atol=1e-6)
    expected = [2, 2, 1] + 5 * [1]
    assert images_seen == expected


def test_prediction_compares_new_files_with_kept_features(tmp_path):
    plan = planned("fedavg", {}, TRAINING, 2, freeze_backbone=True)
    opened = open_run(train(make_chain(tmp_path), plan, work=tmp_path, out=None))
    features = Known.of(opened).features
    assert opened.features.has(opened.data.train["north"])
    expected = pytest.approx(Known.of(replace(opened, features=None)).features, abs=1e-5)
    assert features == expected
    new = replace(opened.data.test["clean"], images=opened.data.test["clean"].images + 1)
    assert not opened.features.has(new)
