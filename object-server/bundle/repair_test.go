package bundle

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"martlet/object-server/vfs"
)

// Wherever the power is cut during a repair: another one ends clean, all that was
// good is there, and the damaged files are where they were or in quarantine.
func TestPowerCutDuringRepair(t *testing.T) {
	fs, b := tendedLog(t)
	storeLarge(t, b, 100, 0x11, 0x11, nil)
	storeLarge(t, b, 101, 0x22, 0x22, nil)
	appendBatch(t, b, put(t, 89, 1000))
	proven := b.provenLSN
	before := objects(b)
	damaged := []string{b.files.path(b.segments.table[0].key(logID)), b.files.path(b.segments.table[2].key(logID)), b.largePath(0x22)}
	originals := map[string]string{}
	for _, path := range damaged {
		alter(t, fs, path, func(f vfs.File) { flip(t, f, 1000) })
		originals[filepath.Base(path)] = contents(t, fs, path)
	}
	d, err := fs.OpenDir("/d")
	check(t, err)
	check(t, d.SyncFS())
	check(t, d.Close())
	recording := fs.Record()
	files := NewFiles(fs, "/d", 4)
	first, err := PlanRepair(files, logID)
	check(t, err)
	check(t, first.Run("/d/quarantined/objects/7-first"))
	rng, seen := rand.New(rand.NewPCG(1, 2)), map[uint64]bool{}
	for _, step := range recording.Steps() {
		for state := range step.State.PowerCuts(rng, 8) {
			if digest := state.Digest(); seen[digest] {
				continue
			} else {
				seen[digest] = true
			}
			for name, original := range originals {
				if !isKept(state, name, original, damaged) {
					t.Fatalf("%s %s: %s is gone", step.Op, step.Name, name)
				}
			}
			again := repaired(t, state)
			after := reopened(t, state)
			if r := after.Report(); len(r.Damaged) > 0 {
				t.Fatalf("%s %s: %v", step.Op, step.Name, r.Damaged)
			}
			found := objects(after)
			for n, o := range before {
				if got := found[n]; got != o && o.lsn <= proven && !first.says(o.lsn, 0) && !again.says(o.lsn, 0) {
					t.Fatalf("%s %s: object %d was %d, is %d", step.Op, step.Name, n, o.lsn, got.lsn)
				}
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d states", len(seen))
	}
}

// isKept tells whether a file has its content in its place or in quarantine.
func isKept(fs vfs.FS, name, content string, places []string) bool {
	for _, path := range append([]string{"/d/quarantined/objects/7-first/" + name}, places...) {
		f, err := fs.Open(path)
		if err != nil || filepath.Base(path) != name {
			continue
		}
		p := make([]byte, len(content))
		n, _ := f.ReadAt(p, 0)
		_ = f.Close()
		if string(p[:n]) == content {
			return true
		}
	}
	return false
}
