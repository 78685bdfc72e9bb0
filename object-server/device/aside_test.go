package device

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// in lists what lies below a directory, as far as it is there.
func in(t *testing.T, files vfs.FS, directory string) (names []string) {
	t.Helper()
	entries, err := files.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, filepath.Join(directory, entry.Name()))
	}
	return names
}

// rottenLarge is a device that was killed after it had acknowledged a large object,
// whose record has a rotten byte: the last batch, which looks torn.
func rottenLarge(t *testing.T) (*vfs.Mem, Location) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SpillBytes: 1000})
	loc := Location{Partition: 7, Hash: format.Hash{1}}
	must[State](t)(put(d, loc, "big", 1, body(1, 100_000)))
	after := mem.KillClone()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, after, "/d/bundles/7/00000001-0000.bundle", 128+128+20, 1, func(p []byte) { p[0] ^= 0xff })
	return after, loc
}

// Nothing that may be acknowledged is unlinked: a large file that no record names is
// in quarantine, whole, until it is old.
func TestUnnamedLargeFilesGoToQuarantine(t *testing.T) {
	mem, loc := rottenLarge(t)
	before := in(t, mem, "/d/bundles/7/large")
	d := open(t, mem, "/d", Options{SpillBytes: 1000})
	wantNotFound(t, d, loc, 0)
	if left := in(t, mem, "/d/bundles/7/large"); len(before) != 1 || len(left) != 0 {
		t.Fatalf("%v before, %v left", before, left)
	}
	directories := in(t, mem, "/d/quarantined/objects")
	if len(directories) != 1 || !strings.HasPrefix(directories[0], "/d/quarantined/objects/7-") {
		t.Fatal(directories)
	}
	aside := in(t, mem, directories[0])
	if len(aside) != 1 || filepath.Base(aside[0]) != filepath.Base(before[0]) {
		t.Fatal(aside)
	}
	f := must[vfs.File](t)(mem.Open(aside[0]))
	defer f.Close()
	content := make([]byte, 100_000)
	if _, err := f.ReadAt(content, 0); err != nil || string(content) != string(body(1, 100_000)) {
		t.Fatal("the bytes are not those of the object", err)
	}
	repaired := "/d/quarantined/objects/7-20200101T000000.000000Z"
	if err := mem.Mkdir(repaired); err != nil {
		t.Fatal(err)
	}
	d.janitor.tidy(time.Now().Add(quarantineAgeDefault - time.Hour))
	if left := in(t, mem, directories[0]); len(left) != 1 {
		t.Fatal("it is removed too early")
	}
	d.janitor.tidy(time.Now().Add(quarantineAgeDefault + time.Hour))
	if left := in(t, mem, "/d/quarantined/objects"); len(left) != 1 || left[0] != repaired {
		t.Fatalf("%v left", left)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// A crash between any two steps, or a disk that takes no more, leaves the file in at
// least one of the two places, and the partition opens.
func TestSettingAsideFailsAnywhere(t *testing.T) {
	for _, broken := range []error{errors.New("cut"), vfs.ErrNoSpace} {
		for n := 0; ; n++ {
			mem, loc := rottenLarge(t)
			count, isReached := 0, false
			fs := vfs.NewFaults(mem, func(op, name string) error {
				if op == "mkdir" || op == "link" || op == "syncdir" && strings.Contains(name, "quarantined") || op == "remove" {
					if count++; count > n {
						isReached = true
						return broken
					}
				}
				return nil
			})
			d := open(t, fs, "/d", Options{SpillBytes: 1000})
			wantNotFound(t, d, loc, 0)
			_ = d.Close()
			found := in(t, mem, "/d/bundles/7/large")
			for _, directory := range in(t, mem, "/d/quarantined/objects") {
				found = append(found, in(t, mem, directory)...)
			}
			if len(found) == 0 {
				t.Fatalf("%v after %d steps: the file is gone", broken, n)
			}
			if !isReached {
				break
			}
		}
	}
}

// The halves of a split partition each have links to all large files. What is the
// other's is unlinked, not put aside.
func TestSplitPutsNothingAside(t *testing.T) {
	mem := vfs.NewMem("/d")
	o := Options{SpillBytes: 1000}
	d := open(t, mem, "/d", o)
	for i := range 16 {
		must[State](t)(put(d, Location{Partition: 1, Hash: format.Hash{0x40 | byte(i)<<2, byte(i)}}, "big", 1, body(uint64(i), 3000)))
	}
	raise(t, d, 2)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, mem, "/d", o)
	for i := range 16 {
		hash := format.Hash{0x40 | byte(i)<<2, byte(i)}
		wantBody(t, d, Location{Partition: hash.Bits(3), Hash: hash}, body(uint64(i), 3000))
	}
	if aside := in(t, mem, "/d/quarantined/objects"); len(aside) > 0 {
		t.Errorf("in quarantine: %v", aside)
	}
	if n, m := len(in(t, mem, "/d/bundles/2/large")), len(in(t, mem, "/d/bundles/3/large")); n+m != 16 || n == 0 || m == 0 {
		t.Errorf("%d and %d large files", n, m)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
