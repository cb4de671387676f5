import pytest

from rankwise.errors import InvalidInputError
from rankwise.recipes.only import matching, parse_only

RUNS = [{"rank": 8, "positions": "none", "bias": 0.5}, {"rank": 16, "positions": "concatenated", "bias": 0.0}]


def chosen(*words):
    return matching(RUNS, parse_only(words))


def test_runs_are_chosen_by_any_column():
    assert chosen("rank=8") == [True, False]
    assert chosen("rank=8,16") == [True, True]
    assert chosen("rank=8,16", "positions=concatenated") == [False, True]
    assert chosen("bias=0.5") == chosen("bias=.50") == [True, False]
    assert chosen("rank=8", "rank=16") == [True, True], "the same column twice widens the choice"
    assert chosen() == [True, True]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rank"], "expected COLUMN=VALUE,VALUE..., for example rank=8,16, got 'rank'"),
        (["=8"], "expected COLUMN=VALUE"),
        (["rnak=8"], "expected one of the columns rank, positions, bias, got 'rnak' .did you mean 'rank'"),
        (["rank=8,9"], "expected some of rank=16,8, got '9'"),
        (["rank=eight"], "expected some of rank=16,8, got 'eight'"),
        (["rank=8", "bias=0"], "got rank=8 bias=0, which no run has together"),
    ],
)
def test_a_choice_that_no_run_fits_is_refused_with_what_there_is(words, message):
    with pytest.raises(InvalidInputError, match=message):
        chosen(*words)
