from hypothesis import given
from hypothesis import strategies as st

from rankwise.measure.bisection import smallest


@given(last=st.integers(1, 300), first=st.integers(1, 300))
def test_it_is_the_first_that_meets_and_few_are_asked(last, first):
    asked = []

    def meets(rank):
        asked.append(rank)
        return rank >= first

    assert smallest(meets, last) == min(first, last)
    assert last not in asked
    assert len(asked) == len(set(asked)) <= last.bit_length()


@given(answers=st.lists(st.booleans(), max_size=60))
def test_with_noise_it_is_one_that_meets_after_one_that_does_not(answers):
    held = [False, *answers, True]
    found = smallest(held.__getitem__, len(held) - 1)
    assert held[found]
    assert not held[found - 1]
