"""Words in the order in which people read them."""

from fedcli.natural import by_size, folded


def in_order(*words):
    return sorted(words, key=by_size)


def test_numbers_in_words_are_sorted_by_size():
    assert in_order("10-19", "3-9", "20+") == ["3-9", "10-19", "20+"]
    assert in_order("site 10", "site 9", "a 11") == ["a 11", "site 9", "site 10"]
    assert in_order("b2c10", "b2c9", "b10c1") == ["b2c9", "b2c10", "b10c1"]


def test_an_open_band_is_sorted_by_its_number():
    assert in_order("60-79", "<40", "40-59", "≥ 80") == ["<40", "40-59", "60-79", "≥ 80"]


def test_words_of_equal_numbers_have_one_order():
    assert in_order("7", "07", "007") == in_order("007", "7", "07") == ["007", "07", "7"]
    assert by_size("07") != by_size("7")


def test_a_name_is_one_in_whatever_letters_and_signs_people_write_it():
    assert folded("FedISM+") == folded("fed-ism+") == "fedism+"
    assert folded("FedISM") != folded("FedISM+")
    assert folded("ViT B/16") == "vitb16"
