package device

import (
	"bytes"
	"path/filepath"
	"testing"
	"unsafe"

	"martlet/object-server/vfs"
)

// What the file systems that are told apart say of where bytes lie: a write to
// blocks that were written before, and are the file's own, moves nothing.
func TestInPlaceOnRealFileSystems(t *testing.T) {
	for _, kind := range []struct {
		name            string
		anchors, shares bool
	}{{"ext4", true, false}, {"xfs", true, true}, {"btrfs", false, true}} {
		t.Run(kind.name, func(t *testing.T) {
			root := mountImage(t, kind.name)
			written := func(name string, blocks int) vfs.File {
				f := must[vfs.File](t)(vfs.OS{}.Create(filepath.Join(root, name)))
				t.Cleanup(func() { _ = f.Close() }) // before mountImage's
				if err := f.Writev([][]byte{make([]byte, blocks*4096)}, 0); err != nil {
					t.Fatal(err)
				}
				return f
			}
			f := written("old", 64)
			if ok, err := f.Anchor(); ok != kind.anchors || err != nil {
				t.Fatal(ok, err)
			}
			if !kind.anchors {
				return
			}
			wantInPlace(t, f, 4608, true)
			if kind.shares { // a copy of the file makes the next write go elsewhere
				if err := written("copy", 0).Clone(f); err != nil {
					t.Fatal(err)
				}
				wantInPlace(t, f, 4608, false)
				wantInPlace(t, f, 4608, false) // nothing is known any more
			}
			grown := written("grown", 64)
			if ok, err := grown.Anchor(); !ok || err != nil {
				t.Fatal(ok, err)
			}
			wantInPlace(t, grown, 64*4096, false)
			reserved := written("reserved", 1)
			if err := reserved.Allocate(64 * 4096); err != nil {
				t.Fatal(err)
			}
			if err := reserved.Truncate(64 * 4096); err != nil {
				t.Fatal(err)
			}
			if err := reserved.Allocate(64 * 4096); err != nil {
				t.Fatal(err)
			}
			if ok, err := reserved.Anchor(); ok || err != nil {
				t.Error("blocks that are only reserved count as written", err)
			}
		})
	}
}

func wantInPlace(t *testing.T, f vfs.File, offset int64, want bool) {
	t.Helper()
	p := bytes.Repeat([]byte("n"), 512+4096)
	p = p[4096-int(addressOf(p)%4096):][:512]
	if err := f.WriteDirect(p, offset); err != nil {
		t.Fatal(err)
	}
	if got := f.InPlace(offset, offset+512); got != want {
		t.Errorf("written at %d: in place %t, want %t", offset, got, want)
	}
}

func addressOf(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }
