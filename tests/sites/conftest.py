"""The partition whose clients are sites in these tests, and one of them."""

import pytest
from conftest import make_chain

from fedcli.sites.site import Site


@pytest.fixture
def data(tmp_path):
    return make_chain(tmp_path)


@pytest.fixture
def site(data, tmp_path):
    return Site(data, tmp_path / "north", client="north")
