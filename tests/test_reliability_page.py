"""The table of docs/reliability.md is counted from results, not written."""

from benchmarks.reliability import PROMISES, faults, page, read_results

RESULTS = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.faults.test_fuzz" name="a">
  <properties><property name="tries" value="1200"/></properties>
</testcase>
<testcase classname="tests.faults.test_fuzz" name="b"><skipped/></testcase>
<testcase classname="tests.faults.test_divergence" name="a"/>
<testcase classname="tests.faults.test_divergence" name="b"><failure/></testcase>
<testcase classname="tests.sweep.engines.test_ray" name="c"/>
</testsuite></testsuites>"""


def test_tries_and_outcomes_are_counted(tmp_path):
    (tmp_path / "r.xml").write_text(RESULTS)
    rows = read_results([tmp_path / "r.xml"])
    assert (rows["test_fuzz"].tests, rows["test_fuzz"].tries, rows["test_fuzz"].outcome()) == (
        1,
        1200,
        "survived; 1 skipped",
    )
    assert rows["test_divergence"].outcome() == "**1 of 2 tests failed**"
    assert set(rows) == {"test_fuzz", "test_divergence"}
    assert "| 1 | 1,200 | survived; 1 skipped |" in page(rows)
    assert "not tested yet" in page(rows)
    listed = next(line for line in page(rows).splitlines() if line.startswith("| Every failure is listed"))
    assert "| 2 | **1 tests failed**; not tried: kill -9 a worker" in listed


def test_every_file_names_its_fault_and_what_surviving_means():
    for name, fault, means in faults():
        assert fault, name
        assert means, name


def test_every_fault_backs_a_promise_and_every_promise_has_its_faults():
    tested = {name for name, _, _ in faults()}
    assert {name for _, tests in PROMISES for name in tests} == tested
