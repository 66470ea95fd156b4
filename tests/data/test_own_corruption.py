"""A corruption of one's own: a function of a file, or of an installed package."""

import numpy as np
import pytest
from site_federation import chain_with_tests
from typed_lines import fedcli as typed

from fedcli import corrupt
from fedcli.bench import corruption_checks
from fedcli.data import manifest
from fedcli.data.corruption.kinds import named
from fedcli.errors import FedcliError, UsageError
from fedcli.extensions import allowed
from fedcli.runs.recorded_code import load_corruptions

DARKER = """
def darker(image, severity, stream):
    \"\"\"Darker.\"\"\"
    return image * (1 - 0.1 * severity)
"""


def written(folder, text=DARKER, name="mine.py"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_function_of_a_file_corrupts_clients_and_its_code_is_recorded(tmp_path):
    path = written(tmp_path)
    made = corrupt(chain_with_tests(tmp_path), path, on=["west"], severity=2, work=tmp_path, jobs=1)
    assert made.body["kind"] == "darker"
    code = made.manifest.options["code"]["darker"]
    assert code["file"] == "mine.py"
    with allowed([path]):
        changed = named(f"{path}:darker").apply(corruption_checks.picture(1), "a", 2, 0)
    assert np.array_equal(changed, np.rint(corruption_checks.picture(1) * 0.8))


def test_it_is_not_run_where_the_command_does_not_name_it(tmp_path):
    path = written(tmp_path)
    made = corrupt(chain_with_tests(tmp_path), path, on=["west"], work=tmp_path, jobs=1)
    with pytest.raises(UsageError, match="which the command does not name"):
        load_corruptions(manifest.read(made.path))
    with allowed([path]):
        load_corruptions(manifest.read(made.path))
        assert named("darker").code.name == "mine.py"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def hair(image, severity, stream):\n    return image", "fedcli has a corruption 'hair'"),
        ("x = 1", "has no function"),
    ],
)
def test_a_file_that_offers_none_is_refused(tmp_path, text, sentence):
    path = written(tmp_path, text)
    with allowed([path]), pytest.raises(FedcliError, match=sentence):
        named(path)


def test_two_files_of_one_command_may_not_share_a_name(tmp_path):
    first = written(tmp_path / "a")
    second = written(tmp_path / "b", DARKER + "# another\n", "other.py")
    with allowed([first, second]):
        named(first)
        with pytest.raises(UsageError, match="both have a corruption 'darker'"):
            named(second)


WRONG = {
    "same seed, same bytes": "return image * np.random.random()",
    "shape, type and range kept": "return image[:, :, :1].mean(2)",
    "changes images": "return image",
    "severities rise": "return image * (0.4 + 0.1 * severity)",
}


@pytest.mark.parametrize("about", WRONG)
def test_a_fault_is_found_by_the_check_of_it(tmp_path, about):
    body = WRONG[about]
    path = written(
        tmp_path, f"import numpy as np\ndef wrong(image, severity, stream):\n    {body}\n"
    )
    with allowed([path]):
        verdicts = corruption_checks.verdicts(path)
    assert about in [verdict.about for verdict in verdicts if verdict.why]


def test_the_command_says_which_check_does_not_hold(tmp_path):
    path = written(tmp_path, "def still(image, severity, stream):\n    return image\n")
    code, printed, said = typed("check", path)
    assert code == 1
    assert "FAILS" in printed
    assert "changes images" in said
    assert typed("check", written(tmp_path / "right"))[0] == 0
