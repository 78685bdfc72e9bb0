package device

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"martlet/object-server/vfs"
)

// A large file that the disk cannot read is told of as any damage is, and served once it
// can be read again.
func TestUnreadableLargeFilesAreTold(t *testing.T) {
	const name = "/a/c/o"
	var isBad atomic.Bool
	mem, loc := vfs.NewMem("/d"), locate(name, 4)
	d := open(t, vfs.NewBadSectors(mem, func(file string, _, _ int64) bool {
		return isBad.Load() && strings.HasSuffix(file, ".data")
	}), "/d", Options{SpillBytes: modelSpill})
	defer d.Close()
	must[State](t)(put(d, loc, name, 1, body(1, modelSpill+1)))
	isBad.Store(true)
	if _, _, err := get(d, loc); !errors.Is(err, ErrQuarantined) {
		t.Fatal(err)
	}
	all, _ := d.Damages()
	if len(all) != 1 || len(all[0].Lost) != 1 || all[0].Lost[0].Hash != loc.Hash || all[0].LargeID == 0 {
		t.Errorf("damages: %+v", all)
	}
	isBad.Store(false)
	wantBody(t, d, loc, body(1, modelSpill+1))
}
