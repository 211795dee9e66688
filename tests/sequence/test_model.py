"""Any edits of sequences that share memory, each beside a list: the scripts of hardening/fuzz/edits.py."""

from hardening.fuzz import edits
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_cases import examples


@settings(
    max_examples=examples(600), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.binary(min_size=300, max_size=700))
def test_a_script(data):
    edits.run(data)
