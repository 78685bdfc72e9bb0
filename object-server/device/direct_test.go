package device

import (
	"fmt"
	"strings"
	"testing"

	"martlet/object-server/vfs"
)

// Segments written past the page cache end in zeros up to the block. A start
// without a clean stop before it takes them for what they are: it goes on in the
// same segments, and finds every record.
func TestDirectSegmentsGoOn(t *testing.T) {
	mem := vfs.NewMem("/d")
	options := Options{SyncMethod: SyncDirect}
	stored := 0
	for range 4 {
		d := open(t, mem, "/d", options)
		for range 12 {
			name := fmt.Sprint(stored)
			must[State](t)(put(d, locate(name, 1), name, 1, body(uint64(stored), 700+37*stored)))
			stored++
		}
		for i := range stored {
			wantBody(t, d, locate(fmt.Sprint(i), 1), body(uint64(i), 700+37*i))
		}
		clone := mem.KillClone()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		mem = clone
	}
	segments := 0
	for name, size := range files(t, mem) {
		if strings.HasSuffix(name, ".bundle") {
			segments++
			if size%512 != 0 {
				t.Errorf("%s has %d bytes", name, size)
			}
		}
	}
	if segments != 2 {
		t.Errorf("%d segments for 2 partitions", segments)
	}
}

// The same on a real file system, and with buffered appends in between.
func TestDirectAndBuffered(t *testing.T) {
	root := t.TempDir()
	stored := 0
	for i, method := range []SyncMethod{SyncDirect, SyncAuto, SyncDirect, SyncJournal, SyncDirect} {
		d := open(t, vfs.OS{}, root, Options{SyncMethod: method, JournalBytes: 1 << 20})
		for range 10 {
			name := fmt.Sprint(stored)
			must[State](t)(put(d, locate(name, 1), name, 1, body(uint64(stored), 300+131*stored)))
			stored++
		}
		for n := range stored {
			wantBody(t, d, locate(fmt.Sprint(n), 1), body(uint64(n), 300+131*n))
		}
		if err := d.Close(); err != nil {
			t.Fatal(i, err)
		}
	}
}
