package device

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"martlet/object-server/vfs"
)

// On a real file system that can, the copy of a large object takes no room; on
// one that cannot, it is a whole one.
func TestCopySharesBytes(t *testing.T) {
	const size = 48 << 20
	content, other := body(3, size), body(4, size/2)
	for _, kind := range []struct {
		name   string
		shares bool
	}{{"xfs", true}, {"btrfs", true}, {"ext4", false}} {
		t.Run(kind.name, func(t *testing.T) {
			root := mountImage(t, kind.name)
			d := open(t, vfs.OS{}, root, Options{})
			defer d.Close()
			must[State](t)(put(d, locate("/a/c/from", 1), "/a/c/from", 1, content))
			free := bytesFree(t, d)
			must[State](t)(copyAs(d, "/a/c/from", "/a/c/to", 2))
			wantBody(t, d, locate("/a/c/to", 1), content)
			taken := free - bytesFree(t, d)
			if kind.shares && taken > size/8 || !kind.shares && taken < size*7/8 {
				t.Errorf("a copy of %d bytes takes %d", size, taken)
			}
			t.Logf("a copy of %d bytes takes %d", size, taken)
			// Writes of either file do not show in the other.
			must[State](t)(put(d, locate("/a/c/from", 1), "/a/c/from", 3, other))
			wantBody(t, d, locate("/a/c/to", 1), content)
		})
	}
}

func bytesFree(t *testing.T, d *Device) int64 {
	t.Helper()
	if err := d.directory.SyncFS(); err != nil {
		t.Fatal(err)
	}
	usage := must[vfs.Usage](t)(d.directory.Usage())
	return int64(usage.BytesFree)
}

// mountImage makes a file system in a file and mounts it until the test ends.
func mountImage(t *testing.T, kind string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	mkfs, err := exec.LookPath("mkfs." + kind)
	if err != nil {
		t.Skip("mkfs." + kind + " is not installed")
	}
	image, root := filepath.Join(t.TempDir(), "image"), t.TempDir()
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(512 << 20); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", mkfs, err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, root).CombinedOutput(); err != nil {
		t.Skipf("%s cannot be mounted here: %v: %s", kind, err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", root).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return root
}
