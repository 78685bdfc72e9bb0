package proof

// Check ends a test at an error that it does not expect. The test is of package testing or rapid.
func Check(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
