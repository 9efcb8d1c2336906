"""The drill of odd surroundings, small: one that has several oddities at once."""

from drills.places import ALL, tried


def test_outcomes_are_the_same_in_an_odd_path_and_in_the_locale_c() -> None:
    fates = tried([one for one in ALL if one.what == "the locale C, odd path"])
    expected = [(0, 0, 0)]
    actual = [(one.changed, one.older, one.undone) for one in fates]

    assert expected == actual
