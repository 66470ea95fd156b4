"""docs/external-validation.md: its session on real images, its other lines, and its script without fedcli."""

import os
import re
import shutil
from pathlib import Path

import pytest
import session
from hospitals import prepared, write_hospitals

import fedcli

PAGE = (Path(__file__).parent.parent / "docs" / "external-validation.md").read_text(
    encoding="utf-8"
)


def blanked(text: str) -> list[str]:
    """The words, sorted, without digests and numbers, which differ between processors, as the order of subgroups does:
    they stand in the order of their accuracy."""
    text = re.sub(r"[0-9a-f]{8}\b", "DIGEST", text)
    return sorted(re.sub(r"[-−]?\d[\d,.]*", "N", text.replace("†", "")).split())


@pytest.mark.long
@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_the_session_is_what_the_commands_print_and_the_script_agrees_with_predict(
    tmp_path, monkeypatch, capsys
):
    data = Path(os.environ["FEDCLI_REAL_DATA"]) / "ham10000"
    (tmp_path / "ham10000").symlink_to(data)
    monkeypatch.chdir(tmp_path)
    for command, printed in session.recorded(session.EXTERNAL):
        text = session.run(command)
        if " --adapt " in command:  # which changes are significant depends on the processor
            assert "Adapted to the clean test images" in text
            continue
        if " evaluate " in command:  # what stands before may name other groups on another processor
            text, printed = (output[output.index(", threshold ") :] for output in (text, printed))
        assert blanked(text) == blanked(printed), command
    shutil.copy(min((data / "images").glob("*.jpg")), "new.jpg")
    capsys.readouterr()
    exec(re.search(r"```python\n(.*?)```", PAGE, re.S)[1])
    printed = capsys.readouterr().out
    (run,) = Path("fedcli-work/runs").glob("*/run.json")
    predicted = fedcli.predict(run, ["new.jpg"]).predicted
    numbers = [float(number) for number in re.findall(r"float32\(([^)]*)\)", printed)]
    assert numbers == pytest.approx(predicted.chances[0].tolist(), abs=1e-4)


def test_its_other_lines_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset = prepared(write_hospitals(Path("raw"), count=48), Path("fedcli-work"))
    run = fedcli.train(
        "fedavg", fedcli.partition(dataset, by=["hospital"], val=0.3), rounds=1, personal=True
    )
    Path("classes.csv").write_text("theirs,ours\nhealthy,healthy\nill,\n")
    words = {"RUN": str(run.path), "DIR": "raw", "OTHER": str(dataset.path), "center": "hospital"}
    lines = re.findall(r"^    (fedcli .*?)(?:\s+#.*)?$", PAGE, re.M)
    assert len(lines) == 8
    for line in lines:
        line = line.replace("--rounds 10", "--rounds 1")
        session.output(line, lambda shown: [words.get(word, word) for word in shown.split()[1:]])
