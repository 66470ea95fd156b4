"""The files of a job for NVFlare and of an app for Flower, as nvflare 2.9 and flwr 1.41 read them."""

import ast
import json
import tomllib
from pathlib import Path

import pytest

from fedcli.errors import UsageError
from fedcli.sites import transport
from fedcli.sites.transport.export import Job, flower, nvflare

JOB = Job(["hospital-a", "hospital-b"], Path("/run/fedcli"), 60, Path("/var/lib/attach"))


def written(files, folder):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_job_of_nvflare_is_json_that_names_two_classes():
    files = {name: json.loads(text) for name, text in nvflare(JOB).items()}
    expected = {
        "job/meta.json",
        "job/app/config/config_fed_server.json",
        "job/app/config/config_fed_client.json",
        "allow-list.json",
        *(
            f"sites/{site}/{name}.json"
            for site in JOB.clients
            for name in ("comm_config", "profile")
        ),
    }
    assert set(files) == expected
    meta = files["job/meta.json"]
    assert meta["deploy_map"] == {"app": ["@ALL"]}
    assert meta["min_clients"] == 2
    assert meta["mandatory_clients"] == JOB.clients
    server = files["job/app/config/config_fed_server.json"]
    (workflow,) = server["workflows"]
    assert workflow["args"] == {"folder": "/run/fedcli", "clients": JOB.clients, "idle": 60}
    client = files["job/app/config/config_fed_client.json"]
    (executor,) = client["executors"]
    expected = {
        "server": [workflow["path"]],
        "sites": [executor["executor"]["path"]],
    }
    assert files["allow-list.json"] == expected
    for config in (server, client):
        assert config["format_version"] == 2
        assert config["components"] == []
        assert config["task_data_filters"] == []
        assert config["task_result_filters"] == []
    assert (
        executor["executor"]["args"]["params_exchange_format"] == "numpy"
    )  # the default of 2.9 is another


def test_a_site_and_its_nvflare_meet_in_one_folder_under_one_name():
    files = {name: json.loads(text) for name, text in nvflare(JOB).items()}
    job = files["job/app/config/config_fed_client.json"]["executors"][0]["executor"]["args"]
    for site in JOB.clients:
        profile = files[f"sites/{site}/profile.json"]
        comm = files[f"sites/{site}/comm_config.json"]
        assert profile["site_name"] == site
        assert profile["attach_id"] == job["attach_id"]
        assert (
            profile["rendezvous_dir"]
            == comm["client_api_attach"]["resources"]["root_dir"]
            == "/var/lib/attach"
        )
        assert profile["execution_mode"] == job["execution_mode"] == "attach"


def test_an_app_of_flower_has_what_is_checked_before_it_is_sent():
    files = flower(JOB)
    project = tomllib.loads(files["app/pyproject.toml"])
    assert f"app/{project['project']['license']['file']}" in files
    assert any(needed.startswith("flwr>=") for needed in project["project"]["dependencies"])
    app = project["tool"]["flwr"]["app"]
    assert app["publisher"]
    assert app["fab-format-version"] == 1
    assert app["flwr-version-target"]
    assert app["config"] == {
        "folder": "/run/fedcli",
        "clients": "hospital-a,hospital-b",
        "idle": 60,
    }
    for component in app["components"].values():  # found in the text, without importing it
        module, name = component.split(":")
        tree = ast.parse(files[f"app/{module.replace('.', '/')}.py"])
        result = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
        }
        assert name in result


@pytest.mark.parametrize("name", ["clinic.east", "clinic+", "1st"])
def test_a_name_that_nvflare_cannot_route_to_is_refused(name):
    with pytest.raises(UsageError, match="NVFlare takes no site called"):
        nvflare(Job([name], Path("/run/fedcli")))
    assert flower(Job([name], Path("/run/fedcli")))


WRONG_JOBS = [
    (Job(["a"], Path("here")), "folders of other machines"),
    (Job(["a"], Path("/run"), attach=Path("here")), "folders of other machines"),
    (Job(["a"], Path("/run"), idle=0), "--idle 0 is out of range"),
    (Job(["a"], Path("/" + "x" * 120)), "too long for a socket's name"),
]


@pytest.mark.parametrize(("job", "sentence"), WRONG_JOBS)
def test_what_no_job_can_be_told_is_refused(job, sentence):
    for export in (nvflare, flower):
        with pytest.raises(UsageError, match=sentence):
            export(job)


def test_nothing_here_imports_torch():
    for path in Path(transport.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            above = (getattr(node, "level", 0) and node.module) or ""
            result = (
                "",
                "errors",
                "io",
                "shapes",
                "frames",
                "relay",
                "sockets",
            )
            assert above.split(".")[0] in result, path
            if isinstance(node, ast.Import):
                result = {alias.name.split(".")[0] for alias in node.names}
                assert "torch" not in result


def test_nvflare_takes_the_arguments_of_its_executor():
    executor = pytest.importorskip("nvflare.app_common.executors.client_api_executor")
    config = json.loads(nvflare(JOB)["job/app/config/config_fed_client.json"])
    assert (
        executor.ClientAPIExecutor(**config["executors"][0]["executor"]["args"]).execution_mode
        == "attach"
    )


def test_flower_takes_the_app(tmp_path):
    checks = pytest.importorskip("flwr.cli.config_utils")
    project = written(flower(JOB), tmp_path) / "app" / "pyproject.toml"
    config, _ = checks.load_and_validate(
        project, check_module=True
    )  # raises ValueError with the reasons
    assert config["project"]["name"] == "fedcli-app"
