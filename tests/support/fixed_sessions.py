"""Sessions of commands that are the same in every checkout, on samples that fedcli draws itself."""

import re
from pathlib import Path

import numpy as np
from PIL import Image

TRAIN = "--rounds 2 --threads 1 --engine in-process"
PHANTOM = [
    "fedcli prepare phantom --size 16 --sample-images 480 --jobs 1",
    "fedcli partition --by site --val 0.2",
    "fedcli corrupt gaussian --on west --severity 2 --jobs 1",
]
RUNS = {
    "a0": "fedavg",
    "a1": "fedavg --seed 1",
    "h0": "fedheal",
    "h1": "fedheal --seed 1",
    "i0": "fedism-plus",
    "q0": "qffl --set q=0.5",
}
SESSIONS = {
    "demo": ["fedcli demo --rounds 1 --json"],
    "sample": [
        "fedcli prepare rsna-ich --sample --corrupt gaussian --ratio 0.2 --jobs 1",
        f"fedcli train fedheal {TRAIN}",
        "fedcli evaluate --by race",
    ],
    "phantom": [
        *PHANTOM,
        *(
            f"fedcli train {words} {TRAIN} --lr 0.003 --eval-every 1 --name {name}"
            for name, words in RUNS.items()
        ),
        "fedcli evaluate runs/a0 --by race --by sex --by race*sex",
        "fedcli evaluate runs/a1 --by sex --corrupt gaussian --corrupt shot-noise --severity 1 --severity 4"
        " --interval bca --choose worst-group --shots 78,76",
        "fedcli evaluate runs/h0 --by sex --clinical --positive epidural --cost 5 --metric ./own.py:reward",
        "fedcli prepare phantom --size 16 --seed 3 --sample-images 120 --jobs 1 --out other",
        "fedcli evaluate runs/i0 --by sex --on other/dataset.json --all-images",
        "fedcli report runs/* --by sex --by race --format csv",
        "fedcli report runs/* --by sex --shots 78,76 --format json",
        "fedcli report runs/* --by sex --metric f1_macro --metric accuracy --at best --separate --format json",
        "fedcli report runs/* --by race*sex --metric auc_ovo_macro --at last --interval bca --bytes --format json",
        "fedcli report runs/* --by sex --choose dto --spread runs --format csv",
        "fedcli report runs/* --by sex --metric ./own.py:reward --format json",
        "fedcli compare runs/a0 runs/a1 runs/h0 runs/h1 --by sex --json=full",
        "fedcli compare runs/a0 runs/h0 --by race --metric f1_macro --metric accuracy --interval bca --resamples 500"
        " --json=full",
        "fedcli compare runs/a0 runs/q0 --by sex --resamples 200",
        "fedcli predict runs/a0 images --positive epidural --rule youden --cost 5 --format csv",
        "fedcli predict runs/h0 images --format json",
    ],
    "labels": [
        "fedcli prepare chestmnist --sample --jobs 1",
        "fedcli partition --dirichlet 1 --clients 3 --val 0.2",
        f"fedcli train fedavg {TRAIN} --lr 0.003 --eval-every 1 --name a0",
        f"fedcli train fedheal {TRAIN} --lr 0.003 --eval-every 1 --name h0",
        "fedcli evaluate runs/a0 --by sex --clinical --positive effusion --interval bca --choose overall",
        "fedcli report --by sex --format csv",
        "fedcli report runs/h0 --by sex --format csv --export long.csv",
        "fedcli report --by sex --metric auc_macro --metric hamming_accuracy --format json",
        "fedcli compare runs/a0 runs/h0 --by sex --resamples 500 --json=full",
        "fedcli predict runs/h0 images --positive effusion --rule sensitivity=0.9 --format json",
    ],
    "clients": [
        "fedcli prepare phantom --size 16 --sample-images 480 --jobs 1",
        "fedcli partition --by site",
        "fedcli corrupt gaussian --ratio 0.25 --jobs 1",
        f"fedcli train ditto --personal {TRAIN} --lr 0.003 --name ditto",
        f"fedcli train fedbn {TRAIN} --lr 0.003 --name fedbn",
        f"fedcli train fedavg --single-site {TRAIN} --lr 0.003 --name alone",
        "fedcli evaluate runs/ditto --by sex --cross-site",
        "fedcli evaluate runs/fedbn --by sex",
        "fedcli evaluate runs/alone --by sex --cross-site",
        "fedcli report --by sex --format csv",
        "fedcli report --by sex --format json",
        "fedcli compare runs/fedbn runs/alone --by sex --resamples 500 --json=full",
    ],
    "recipes": [
        "fedcli reproduce fairfedmed-chest --scale smoke --seeds 1 --only PromptFL --jobs 1 --json",
        "fedcli reproduce fedism-plus-table2 --scale smoke --seeds 1 --only FedAvg --jobs 1 --json",
    ],
}
OWN = """
import numpy as np

def reward(probabilities, labels, groups):
    guess = probabilities.argmax(1)
    return float(np.where(guess == labels, 1.0, np.where((guess > 0) & (labels == 0), 0.8, 0.0)).mean())
"""


def write_files(folder: Path) -> None:
    """Write what the sessions read: a metric of one's own, and images to predict."""
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    write_images(folder / "images")


def here(line: str) -> str:
    """The line with the folder its results go to, and the names that its shell would fill in."""
    words = [f"fedcli {line.split()[1]} --work ."]
    for word in line.split()[2:]:
        run = re.fullmatch(r"runs/(\w+|\*)", word)
        words += sorted(map(str, Path().glob(f"{word}/run.json"))) if run else [word]
    return " ".join(words)


def write_images(folder: Path) -> None:
    """Three files to predict: grey squares with a spot."""
    folder.mkdir(exist_ok=True)
    for i in range(3):
        pixels = np.add.outer(np.arange(28) * 3, np.arange(28) * 2)
        top = 5 + 5 * i
        pixels[top : top + 7, 8:20] = 250 - 40 * i
        pixels = pixels.astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
