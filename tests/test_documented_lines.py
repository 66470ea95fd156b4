"""Every command line that the guides and the help texts show is run, on synthetic samples and for one round.

Lines of one heading, or of one help text, run one after another in a folder of their own, as a reader would type them;
a line that stands in several places runs in the first.
"""

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import session
import typer
from PIL import Image
from raw_folders import write_csv

from fedcli.commands.app import app
from fedcli.data import sources

ROOT = Path(__file__).parent.parent
COMMANDS = typer.main.get_command(app).commands
ONLY_PARSED = {  # what a line holds -> why it is not run here
    "fedcli open": "needs a page; tests/commands/test_open.py has some",
    "fedcli rm": "names a run; tests/commands/test_rm.py makes some",
    "site stop": "needs a site that runs; tests/sites/test_running.py has some",
    "fedcli bench": "takes minutes; tests/bench runs its sides",
    "--device cuda": "needs a GPU",
    "--cells ": "ends without a table; reproduce/test_many_processes.py plays parts",
    "--figures ": "draws for half a minute; tests/reporting/test_graphics.py draws",
    "plot critical-difference": "needs runs on several datasets; tests/figures draws it",
    "--card ": "needs one run; tests/reporting/test_cards.py writes cards",
    "--download": "needs the internet",
    "--weights imagenet": "needs the extra; tests/models/test_lite.py has files of its layout",
    "--fetch": "needs the internet",
    "--track mlflow": "needs a server; tests/reporting/test_tracking.py writes files",
    "--match ": "needs a client with more noise; data/test_matched.py has one",
    "inspect described --quality": "needs sites with more images; sites/test_quality.py has them",
    "--socket ": "answers until it is stopped; tests/sites runs it",
    "--engine socket:": "needs sites that run",
    "--nvflare ": "answers until it is stopped; tests/consortium runs it",
    "--sites described": "needs sites that run",
    "--data partition.json": "needs a run that sites trained; tests/sites/test_one_site.py has one",
    "--on partition.json": "needs a run that sites trained; tests/sites/test_one_site.py has one",
    "qmix_loss": "FedMRL's agents learn from round 11 on",
}
MORE = {
    "fedcli prepare rsna-ich --raw kaggle --corrupt gaussian --ratio 0.2": " --clients 2"
}  # the sample is small
FOLDERS = {
    "RAW": "isic2018",
    "HAM10000": "isic2018",
    "kaggle": "rsna-ich",
    "ISIC": "isic2019",
    "HYPERKVASIR": "hyper-kvasir",
}
STANDS_FOR = {"METHOD": "fedprox", "NAME": "fedheal"}
DATASET = {"NAME": "toy"}
RUN_ELSEWHERE = {
    "external-validation.md": "test_external_validation.py",
    "extend.md": "test_extend.py",
    "multi-label.md": "test_multi_label.py",
    "consortium.md": "consortium",
    "engines.md": "consortium",
}  # page -> its own test
SHORTER = {  # what is added to a command so that it ends soon; the last of a flag counts
    "train": "--rounds 1",
    "demo": "--rounds 1",
    "prepare": "--size 32",
    "audit": "--iterations 2",
    "reproduce": "--scale smoke --only FedAvg --dry-run",  # reproduce/test_smoke.py trains
}
FEWER = {
    "--clients 8": "--clients 2",
    "svg,pdf": "svg",
    "--clients 20": "--clients 2",
    "--seeds 3": "--seeds 1",
    "q=0.5,1,2,5": "q=0.5,1",
}
SKIN = ["fedcli prepare isic2018 --raw RAW"]
TWO_CLIENTS = [*SKIN, "fedcli partition --dirichlet 1.0 --clients 2"]
DIGITS = ["fedcli prepare toy --sample-images 200", "fedcli partition --dirichlet 1.0 --clients 2"]
SCORED = [*DIGITS, "fedcli train fedavg", "fedcli evaluate"]  # without groups there are few figures
SKIN_CLIENTS = [*SKIN, "fedcli partition --by center"]
DESCRIBED = [*TWO_CLIENTS, "fedcli site describe --client client-00 --out described/client-00.json"]
SWEPT = [f"fedcli train qffl --eval-every 1 --set q={q}" for q in (1, 2)]
BEFORE = {  # heading, or module of a command -> what its reader has typed already
    "Rare classes": SKIN,
    "Four commands": SKIN,
    "corrupt": SKIN_CLIENTS,
    "partition": SKIN,
    "train": TWO_CLIENTS,
    "DP-SGD: the guarantee for one image": TWO_CLIENTS,
    "site": DESCRIBED,
    "export": [*DESCRIBED, "fedcli train fedavg"],
    "Steps that both engines share": DESCRIBED,
    "evaluate": [*SKIN_CLIENTS, "fedcli train fedavg"],
    "Decide for new images": [
        *SKIN,
        "fedcli partition --by center --val 0.3",
        "fedcli train fedavg",
    ],
    "Kinds and their pictures": SKIN_CLIENTS,
    "Several kinds over the clients": SKIN_CLIENTS,
    "The mean corruption error": [*SKIN_CLIENTS, "fedcli train fedavg", "fedcli train fedheal"],
    "Your own kind": SKIN_CLIENTS,
    "Who stands out": SKIN_CLIENTS,
    "Sites that keep their images": SKIN_CLIENTS,
    "Weight clients by quality": SKIN_CLIENTS,
    "Does quality explain a gap?": [*SKIN_CLIENTS, "fedcli train fedavg"],
    "A backdoor": ["fedcli prepare toy --size 16"],
    "Rules": [*TWO_CLIENTS, "fedcli train fedavg"],
    "Skin images from four hospitals": SKIN_CLIENTS,
    "Steps after and during training": SKIN,
    "Adapters": TWO_CLIENTS,
    "A classifier on a frozen network": TWO_CLIENTS,
    "Other methods, ten rounds": ["fedcli prepare office-caltech"],
    "predict": [*TWO_CLIENTS, "fedcli train fedavg"],
    "audit": [*TWO_CLIENTS, "fedcli train fedavg"],
    "What a finished run gives away": SKIN,
    "Stronger membership attack with shadow runs": [
        *SKIN,
        "fedcli partition --by center --val 0.5",
        "fedcli train fedavg --name target --model cnn-gn --augment none --epochs 2",
    ],
    "When a hospital leaves": [
        *SKIN,
        "fedcli partition --by center --val 0.5",
        "fedcli train fedavg --name target --model cnn-gn --augment none --epochs 2",
    ],
    "A hospital that leaves": [*SKIN_CLIENTS, "fedcli train fedavg"],
    "report": SCORED,
    "Figures for a paper": SCORED,
    "plot": [*TWO_CLIENTS, "fedcli corrupt gaussian --ratio 0.5", *SWEPT],
    "compare": [*TWO_CLIENTS, "fedcli train fedavg", "fedcli train fedheal"],
    "Reproduce a published table": TWO_CLIENTS,
    "TensorBoard and MLflow": TWO_CLIENTS,
    "Choose a model by validation images": [
        *SKIN,
        "fedcli partition --by center --val 0.3",
        "fedcli train fedavg",
    ],
    "Reports and statistics": [
        *TWO_CLIENTS,
        "fedcli corrupt gaussian --ratio 0.5",
        "fedcli train fedavg",
        "fedcli train fedheal",
        *SWEPT,
    ],
    "Figures": [*TWO_CLIENTS, "fedcli corrupt gaussian --ratio 0.5", *SWEPT],
    "Training options": [*TWO_CLIENTS, "fedcli train fedavg"],
    "Patients": [
        "fedcli prepare images --raw DIR --image-column file --label-column diagnosis --patient patient_id"
    ],
    "Frequently asked questions": [
        *SKIN,
        "fedcli partition --by center --val 0.3",
        "fedcli train fedavg",
    ],
    "Which method": [*SKIN, "fedcli train fedavg", "fedcli train fedsmoo"],
    "Groups": [*SKIN, "fedcli train fedavg"],
    "Methods and training options": [
        *SKIN,
        f"{TWO_CLIENTS[1]} --val 0.2",
        "fedcli train fedmrl",
        "fedcli evaluate",
    ],
}


def lines_of(text: str) -> list[str]:
    """Command lines in indented blocks, fences and code spans, without comments."""
    text = re.sub(r"```console.*?```", "", text, flags=re.S).replace("\\\n", " ")
    spans = re.findall(r"^(?:    )?(fedcli [a-z].*)$|`(fedcli [a-z][^`]*)`", text, flags=re.M)
    lines = {}
    for block, span in spans:
        words = re.sub(r"\s+#.*", "", block or span).split()
        if words[1] in COMMANDS and len(words) > 2:
            lines[" ".join(words)] = True
    return list(lines)


def guides() -> dict[str, list[str]]:
    """Heading of a guide, or name of a command -> the lines that stand there."""
    by_name = {}
    readmes = [ROOT / "README.md", ROOT / "recipes" / "README.md"]
    for page in [*readmes, *sorted(ROOT.glob("docs/*.md"))]:
        if page.name in RUN_ELSEWHERE:
            assert (ROOT / "tests" / RUN_ELSEWHERE[page.name]).exists()
            continue
        for part in re.split(r"^#+ ", page.read_text(encoding="utf-8"), flags=re.M)[1:]:
            if lines := lines_of(part):
                by_name.setdefault(part.splitlines()[0], []).extend(lines)
    for name, command in COMMANDS.items():
        examples = re.findall(r"Examples?: (.*)", " ".join((command.help or "").split()))
        if examples:
            by_name[name] = [line.strip() for line in examples[0].split("; ")]
    earlier_lines: set[str] = set()
    for heading, lines in by_name.items():
        by_name[heading] = [line for line in lines if line not in earlier_lines]
        earlier_lines |= set(lines)
    return by_name


GUIDES = guides()


def make_raw_folders(folder: Path) -> dict[str, Path]:
    """A folder laid out like a dataset, by the word that stands for it in the guides."""
    samples = {name: sources.make_sample(name, folder / name) for name in set(FOLDERS.values())}
    own_folder = folder / "own"
    own_folder.mkdir()
    rows = []
    for i in range(24):
        colour = (10 * i, 90, 255 - 10 * i)
        Image.new("RGB", (20, 20), colour).save(own_folder / f"{i}.png")
        side = i % 2
        patient = i // 2
        sex = "fm"[patient % 2]
        rows.append([f"{i}.png", "ab"[side], sex, 30 + i, f"h{side}", f"p{patient}"])
    write_csv(
        own_folder / "labels.csv",
        ["file", "diagnosis", "sex", "age", "hospital", "patient_id"],
        rows,
    )
    german = folder / "german"
    german.mkdir()
    for row in rows:
        (german / row[0]).write_bytes((own_folder / row[0]).read_bytes())
    classes = {"a": "Nävus", "b": "Melanom"}
    sexes = {"f": "weiblich", "m": "männlich"}
    lines = ["Datei;Befund;Geschlecht;Alter;Fall"]
    for file, label, sex, age, _, patient in rows:
        lines.append(";".join([file, classes[label], sexes[sex], f"{age},0", patient]))
    text = "\n".join(lines)
    (german / "befunde.csv").write_text(text, encoding="cp1252")
    return {word: samples[name] for word, name in FOLDERS.items()} | {
        "DIR": own_folder,
        "BEFUNDE": german,
    }


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    return make_raw_folders(tmp_path_factory.mktemp("raw"))


def as_run(line: str, raw: dict[str, Path]) -> list[str]:
    """The words of a line with folders for its placeholders, made shorter."""
    line += MORE.get(line, "")
    for shown_words, fewer in FEWER.items():
        line = line.replace(shown_words, fewer)
    words = shlex.split(line)[1:]
    if "RUN" in words:
        words[words.index("RUN")] = str(min(Path("fedcli-work").glob("runs/*/run.json")))
    stands_for = STANDS_FOR | (DATASET if words[0] == "datasets" else {})
    words = [str(raw.get(word, stands_for.get(word, word))) for word in words]
    for word in raw:  # --raw NAME=FOLDER
        words = [re.sub(f"={word}$", f"={raw[word]}", option) for option in words]
    words = [path for word in words for path in (matching(word) or [word])]
    if words[0] == "methods" or words == ["reproduce"]:
        return words
    if words[0] == "reproduce" and "--plan" in words:
        return words
    return [*words, *SHORTER.get(words[0], "").split()]


def matching(word: str) -> list[str]:
    """Paths that a word with a star stands for, as in a shell."""
    return sorted(map(str, Path().glob(word))) if "*" in word else []


@pytest.fixture(scope="module")
def after(raw, tmp_path_factory):
    """Command lines -> a folder in which they have run; what several headings begin with runs once."""

    @cache
    def run(lines: tuple[str, ...]) -> Path:
        folder = tmp_path_factory.mktemp("after") / "folder"
        if not lines:
            folder.mkdir()
            return folder
        shutil.copytree(run(lines[:-1]), folder, symlinks=True)
        with contextlib.chdir(folder):
            session.output(lines[-1], lambda shown: as_run(shown, raw))
        return folder

    return run


@pytest.fixture
def connected():
    """Addresses of machines that this process looks up or connects to; a socket that is a file is none."""
    heard: list[tuple] = []
    HEARING.append(heard)
    if len(HEARING) == 1:
        sys.addaudithook(_hear)
    return heard


def _hear(event: str, args: tuple) -> None:
    if _is_far(event, args):
        HEARING[-1].append(args[:2])


def write_files_of_guides() -> None:
    """Files that lines of the guides name, in this folder: weights, a recipe and a policy."""
    Path("moco_v2_800ep_pretrain.pth.tar").touch()
    recipe = re.search(
        r"```toml\n(.*?)```", (ROOT / "recipes" / "README.md").read_text(encoding="utf-8"), re.S
    )[1]
    Path("my.toml").write_text(re.sub(r"^published.*\n", "", recipe, flags=re.M), encoding="utf-8")
    policy = re.search(
        r"```toml\n(.*?)```", (ROOT / "docs" / "sites.md").read_text(encoding="utf-8"), re.S
    )[1]
    Path("policy.toml").write_text(policy, encoding="utf-8")


HEARING: list[list[tuple]] = []  # a hook of a process stays


def _is_far(event: str, args: tuple) -> bool:
    return event == "socket.getaddrinfo" or (
        event == "socket.connect" and isinstance(args[1], tuple)
    )


@pytest.mark.long
@pytest.mark.parametrize("heading", GUIDES)
def test_the_lines_of_a_guide_run_and_open_no_connection(
    heading, raw, after, tmp_path, monkeypatch, connected
):
    shutil.copytree(
        after(tuple(BEFORE.get(heading, []))), tmp_path, symlinks=True, dirs_exist_ok=True
    )
    monkeypatch.chdir(tmp_path)
    write_files_of_guides()
    for line in GUIDES[heading]:
        if any(part in line for part in ONLY_PARSED):
            name, *rest = line.split()[1:]
            if name in COMMANDS:
                COMMANDS[name].make_context(name, rest)
        else:
            session.output(line, lambda shown: as_run(shown, raw))
    assert not connected


SHOWN = {line.split()[1] for lines in GUIDES.values() for line in lines} | {
    "demo"
}  # which test_terminal.py runs


@pytest.mark.parametrize("name", sorted({*COMMANDS} - SHOWN))
def test_a_command_that_no_guide_gives_words_opens_no_connection(
    name, after, tmp_path, monkeypatch, connected
):
    shutil.copytree(after(tuple(DIGITS)), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    session.output(f"fedcli {name} {SHORTER.get(name, '')}")
    assert not connected


@pytest.mark.long
def test_stages_compose_in_a_real_shell(tmp_path):
    """Two commands that import no torch; what the guides compose runs above, in this process."""
    fedcli = f"{shlex.quote(sys.executable)} -m fedcli"
    line = "fedcli inspect $(fedcli prepare toy --size 8 --jobs 1) --json"
    ended = subprocess.run(
        ["bash", "-c", line.replace("fedcli ", f"{fedcli} ")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["options"]["dataset"] == "toy"
