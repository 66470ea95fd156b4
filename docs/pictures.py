"""Make the pictures in docs/images anew.

report.png is the page of a small comparison, as Chromium shows it. overall-and-worst.svg and
critical-difference.svg are drawn from the scores in benchmarks/results.

    python docs/pictures.py [report.png] [overall-and-worst.svg] [critical-difference.svg]
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fedcli.commands.demo import demo
from fedcli.figures import drawing
from fedcli.figures.kinds import critical_difference, overall_and_worst

DOCS = Path(__file__).parent
sys.path.append(str(DOCS.parent / "benchmarks"))
import which_method  # noqa: E402

SIZE = "1300,1000"
RANKED_IMAGES = 2005 + 502 + 12007  # tested in HAM10000, Office-Caltech-10, MNIST and USPS
TESTED = 2005  # images of HAM10000
Pairs = list[
    tuple[str, str, int, float, float]
]  # attribute, system, its place, overall score, worst group


def page(work: Path) -> Path:
    """The page of `fedcli demo`."""
    demo(work=work)
    return work / "report.html"


def every_method() -> Pairs:
    """The methods of the benchmark's small networks, and for sex and age their AUC on all clean
    images and in the worst group.
    """
    scores = which_method.means(which_method.recipe_of("hospitals-scratch"))
    pairs = []
    for attribute in ("sex", "age"):
        for place, (method, of_columns) in enumerate(scores.items()):
            worst = of_columns[f"worst {attribute}, AUC"]
            pairs.append((attribute, method, place, of_columns["clean AUC"], worst))
    return pairs


def plane(path: Path) -> None:
    pairs = every_method()
    frame = overall_and_worst.of_pairs(
        pairs,
        "auc_ovo_macro",
        len(pairs) // 2,
        TESTED,
    )
    drawing.write(overall_and_worst.draw(frame), path)


def screenshot(path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        raise SystemExit("needs Chromium")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        words = [
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            f"--window-size={SIZE}",
            f"--screenshot={path}",
        ]
        subprocess.run([browser, *words, page(Path(folder)).as_uri()], check=True)


def ranks(path: Path) -> None:
    frame = critical_difference.of_scores(
        "balanced_accuracy", which_method.ranked(), images=RANKED_IMAGES
    )
    frame.attrs["title"] = "Mean ranks on the federations of the benchmark"
    drawing.write(critical_difference.draw(frame), path)


PICTURES = {
    "report.png": screenshot,
    "overall-and-worst.svg": plane,
    "critical-difference.svg": ranks,
}


def main() -> None:
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name](DOCS / "images" / name)


if __name__ == "__main__":
    main()
