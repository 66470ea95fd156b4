"""Make docs/images/report.png anew: the page of a small comparison, as Chromium shows it.

python docs/pictures.py
"""

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import fedcli

PICTURE = Path(__file__).parent / "images" / "report.png"
SIZE = "1300,1000"


def page(work: Path) -> Path:
    """The HTML report of three methods on scanned digits, noise on two of eight clients."""
    clients = fedcli.partition(fedcli.prepare("toy", work=work), dirichlet=1.0, clients=8, work=work)
    noisy = fedcli.corrupt(clients, "gaussian", ratio=0.25, work=work)
    runs = [
        fedcli.train(method, noisy, rounds=10, lr=0.003, work=work) for method in ("fedavg", "fedheal", "fedism-plus")
    ]
    html = work / "report.html"
    html.write_text(fedcli.report(runs).to("html"), encoding="utf-8")
    return html


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        raise SystemExit("needs Chromium")
    PICTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        words = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE}", f"--screenshot={PICTURE}"]
        subprocess.run([browser, *words, page(Path(folder)).as_uri()], check=True)


if __name__ == "__main__":
    main()
