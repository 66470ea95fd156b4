"""Sections that installed packages add to a report, and those of leaves."""

import pytest
from report_tables import texts

from fedcli.errors import UsageError
from fedcli.reporting import sections
from fedcli.reporting.table import ReportTable, Section


def written(systems):
    untitled = ReportTable.of("", ["name"], [[name] for name in systems])
    titled = ReportTable.of("Own title", ["name"], [])
    return Section("any", "Readings", [untitled, titled])


def failing(systems):
    raise ZeroDivisionError("by zero")


OFFERED = {
    "readings": (written, "a-package 1.0"),
    "failing": (failing, "b-package 2.0"),
    "text": (lambda systems: "no section", "c-package 3.0"),
}


@pytest.fixture(autouse=True)
def _packages(monkeypatch):
    monkeypatch.setattr(sections.extensions, "installed", lambda kind: OFFERED)
    monkeypatch.setattr(sections.extensions, "offered", lambda kind, name: OFFERED.get(name))


def test_a_section_of_a_package_has_a_name_of_its_own_and_titles():
    (section,) = sections.of_packages(["readings"], ["FedAvg", "FedHEAL"])
    assert section.name == "package-readings"
    result = [table.title for table in section.tables]
    assert result == ["Readings", "Own title"]
    result = texts(section.tables[0])
    assert result == [["FedAvg"], ["FedHEAL"]]


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("failing", "the section failing of b-package 2.0 is left out: by zero"),
        ("text", "the section text of c-package 3.0 is left out: str is no Section"),
    ],
)
def test_one_that_fails_is_left_out_with_a_warning(name, warning, caplog):
    (section,) = sections.of_packages([name, "readings"], ["FedAvg"])
    assert section.name == "package-readings"
    assert warning.split(": ")[0] in caplog.text
    assert warning.split(": ")[1] in caplog.text


def test_a_name_that_no_package_offers_is_refused():
    sections.check(["readings"])
    with pytest.raises(UsageError) as refusal:
        sections.check(["readings", "reading"])
    assert refusal.value.sentence == "no installed package offers a section 'reading'"
    assert "readings" in refusal.value.hint


def test_a_section_of_a_deleted_module_is_none():
    assert list(sections.of_leaf("no_such_module", [])) == []
