"""Nothing that a file names is run or fetched: not from manifests, settings, recipes, policies or fedcli.toml."""

import json
from itertools import cycle, product
from pathlib import Path

import pytest
from strangers import FILES, PROBES, RUN, TOML, alike, made, played, texts

FILE, FUNCTION, HUB = PROBES[:3]
KNOWN = [  # a file, where in it, what is put there, a command that once used it
    *(
        ("runs/fedavg/run.json", ("body", "model", "name"), FUNCTION, words)
        for words in FILES["runs/fedavg/run.json"]
    ),
    ("runs/fedavg/run.json", ("body", "model", "name"), HUB, ["evaluate", RUN]),
    *(
        ("runs/fedavg/run.json", ("body", "method"), FILE, words)
        for words in FILES["runs/fedavg/run.json"]
    ),
    ("datasets/*/dataset.json", ("options", "dataset"), FILE, ["predict", RUN, "image.png"]),
    (
        "datasets/*/dataset.json",
        ("options", "dataset"),
        FILE,
        ["export", "model", RUN, "--format", "safetensors"],
    ),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A small federation, and beside it code that says when it runs."""
    return made(tmp_path_factory.mktemp("whole"))


def check(whole, folder, cases):
    """Nothing was run, nothing was asked of the network, and every command ended with an exit code of its own."""
    ends, err = played(whole, folder, cases)
    assert [end for end in ends if end["wrong"]] == []
    assert "error: unexpected" not in err
    return [end["code"] for end in ends], err


def test_what_once_ran_is_refused_with_the_file_and_the_flag_that_would_allow_it(whole, tmp_path):
    _, err = check(whole, tmp_path, KNOWN)
    assert (
        "runs/fedavg/run.json names evil.py, which holds code and is not run: the command does not name it"
        in err
    )
    assert "hint: if you know what it does: --code evil.py" in err
    assert (
        f"run.json names {HUB}, a network of a hub, which is not used: the command does not name it"
        in err
    )


@pytest.mark.parametrize("file", FILES)
def test_no_text_of_a_manifest_runs_code_or_asks_the_network(file, whole, tmp_path):
    """Each text in turn, with the kinds of probes and the commands taken in turn."""
    (path,) = whole.glob(f"fedcli-work/{file}")
    places = alike(json.loads(path.read_text(encoding="utf-8")))
    assert len(places) > 3
    cases = []
    for path_in_file, probe, words in zip(places, cycle(PROBES), cycle(FILES[file])):
        cases.append((file, path_in_file, probe, words))
    check(whole, tmp_path, cases)


@pytest.mark.parametrize("file", TOML)
def test_no_text_of_a_toml_file_does(file, whole, tmp_path):
    text, lines = TOML[file]
    spans = texts(text)
    same_text = text[slice(*spans[0])][1:-1]
    codes, _ = check(whole, tmp_path, [(file, spans[0], same_text, line) for line in lines])
    assert codes[0] == 0
    cases = []
    for (span, line), probe in zip(product(spans, lines), cycle(PROBES)):
        cases.append((file, span, probe, line))
    check(whole, tmp_path, cases)
