package bundle

import (
	"testing"

	"martlet/object-server/vfs"
)

// Package inspect, which imports this one: inspector_test.go is outside of it, and lends
// what verifies a log and what repairs it. Both return the damages.
var (
	InspectVerify func(files *Files, id ID) ([]Damage, error)
	InspectRepair func(files *Files, id ID, quarantine string) ([]Damage, error)
)

// verified is the damage in the log.
func verified(t testing.TB, fs vfs.FS) []Damage {
	t.Helper()
	files := NewFiles(fs, "/d", 4)
	damages, err := InspectVerify(files, logID)
	check(t, err)
	check(t, files.Close())
	return damages
}

func wantClean(t testing.TB, fs vfs.FS) {
	t.Helper()
	for _, d := range verified(t, fs) {
		t.Errorf("damage: %s", &d)
	}
}

// repaired repairs the log, and wants it clean.
func repaired(t testing.TB, fs vfs.FS) {
	t.Helper()
	files := NewFiles(fs, "/d", 4)
	_, err := InspectRepair(files, logID, "/d/quarantined/objects/7-now")
	check(t, err)
	check(t, files.Close())
	wantClean(t, fs)
}
