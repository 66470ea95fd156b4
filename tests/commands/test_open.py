"""fedcli open: the newest page, or the one that is named."""

import os
import sys

import pytest
from typed_lines import Terminal, fedcli

from fedcli.commands import open as command


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """The pages of a demo and of a report, which is newer."""
    monkeypatch.chdir(tmp_path)
    for age, folder in enumerate(["fedcli-demo", "fedcli-work"]):
        page = tmp_path / folder / "report.html"
        page.parent.mkdir()
        page.write_text("<html>")
        os.utime(page, (age, age))
    return tmp_path


@pytest.fixture
def shown(monkeypatch):
    """The addresses that a browser is given."""
    addresses = []
    monkeypatch.setattr(command.webbrowser, "open", addresses.append)
    return addresses


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ([], "fedcli-work/report.html"),
        (["fedcli-demo"], "fedcli-demo/report.html"),
        (["fedcli-demo/report.html"], "fedcli-demo/report.html"),
        (["--work", "fedcli-demo"], "fedcli-demo/report.html"),
    ],
)
def test_the_page_is_printed_and_without_a_terminal_not_opened(pages, shown, words, page):
    code, out, _ = fedcli("open", *words)
    assert (code, out.strip(), shown) == (0, page, [])


@pytest.mark.parametrize(
    ("platform", "screen", "opened"),
    [("linux", "", 0), ("linux", ":0", 1), ("darwin", "", 1)],
)
def test_a_page_is_opened_where_there_is_a_screen(
    pages, shown, monkeypatch, platform, screen, opened
):
    monkeypatch.setattr("typed_lines.io.StringIO", Terminal)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", screen)
    assert fedcli("open")[0] == 0
    assert shown == [(pages / "fedcli-work" / "report.html").as_uri()] * opened


def test_without_a_page_a_command_writes_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = fedcli("open")
    assert code == 1
    assert "no page is under fedcli-work" in err
    assert "--format html" in err
