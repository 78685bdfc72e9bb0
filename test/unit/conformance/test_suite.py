"""How the results of others' tests are read and held against what is expected."""

from pathlib import Path

from suite import Result, node_of, read_report, with_second_go, worse

_REPORT = """\
<testsuites><testsuite>
<testcase classname="test.functional.tests.TestFile" name="testCopy" />
<testcase classname="test.functional.tests.TestFile" name="testHead">
<failure message="500 Internal Error&#10;and more" /></testcase>
<testcase classname="test.functional.tests.TestFile" name="testHead" />
<testcase classname="test.functional.test_slo.TestSlo" name="test_get">
<skipped message="SLO not enabled" /></testcase>
</testsuite></testsuites>
"""


def test_a_report_is_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(_REPORT)
    assert read_report(report) == [
        Result("test_slo.TestSlo.test_get", "skipped", "SLO not enabled"),
        Result("tests.TestFile.testCopy", "passed"),
        Result("tests.TestFile.testHead", "failed", "500 Internal Error and more"),
    ]


def test_worse_is_what_passes_there_and_not_here() -> None:
    expected = {"m.C.a": "passed", "m.C.b": "passed", "m.C.c": "passed", "m.C.d": "skipped"}
    here = [Result("m.C.a", "skipped", "no SLO"), Result("m.C.b", "passed")]
    absent = Result("m.C.c", "failed", "did not run")
    assert worse(expected, here) == [here[0], absent]


def test_a_second_go_mends_and_breaks_nothing() -> None:
    failed, skipped = Result("m.C.a", "failed", "409"), Result("m.C.b", "skipped")
    passed, late = Result("m.C.a", "passed"), Result("m.C.z", "passed")
    again = [passed, Result("m.C.b", "failed", "500"), late]
    assert with_second_go([failed, skipped], again) == [passed, skipped, late]


def test_a_single_test_is_picked_by_its_file_and_class() -> None:
    assert node_of("tests.TestFile.testCopy") == "test/functional/tests.py::TestFile::testCopy"
    assert (
        node_of("test.s3api.test_mpu.TestMpu.test_x") == "test/s3api/test_mpu.py::TestMpu::test_x"
    )
