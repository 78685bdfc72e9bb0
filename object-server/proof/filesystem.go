package proof

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// imageSize is enough for each file system that is made here; XFS wants 300 MiB.
// The file is sparse.
const imageSize = 320 << 20

// Disks runs a test on the temporary directory, on tmpfs, and on new ext4, XFS
// and Btrfs file systems in files. A kind that cannot be made here is skipped,
// and the reason is told.
func Disks(t *testing.T, test func(t *testing.T, root string)) {
	t.Run("temporary directory", func(t *testing.T) { test(t, t.TempDir()) })
	t.Run("tmpfs", func(t *testing.T) { test(t, mount(t, "-t", "tmpfs", "-o", "size=64m", "tmpfs")) })
	for kind, options := range map[string][]string{"ext4": {"-q", "-F"}, "xfs": {"-q"}, "btrfs": {"-q"}} {
		t.Run(kind, func(t *testing.T) { test(t, made(t, kind, options...)) })
	}
}

// made makes and mounts a file system in a file.
func made(t *testing.T, kind string, options ...string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, imageSize); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs."+kind, append(options, image)...).CombinedOutput(); err != nil {
		t.Skipf("mkfs.%s: %v %s", kind, err, out)
	}
	return mount(t, "-o", "loop", image)
}

// XFS makes a small XFS file system.
func XFS(t *testing.T) string {
	t.Helper()
	return made(t, "xfs", "-q")
}

// Tmpfs makes a file system of so many bytes in memory, which is gone after the test.
func Tmpfs(t *testing.T, bytes int64) string {
	t.Helper()
	return mount(t, "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", bytes), "tmpfs")
}

// mount mounts what the arguments say until the test ends.
func mount(t *testing.T, arguments ...string) string {
	root := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	if out, err := exec.Command("mount", append(arguments, root)...).CombinedOutput(); err != nil {
		t.Skipf("mount: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", root).CombinedOutput(); err != nil {
			t.Error(fmt.Errorf("umount: %w %s", err, out))
		}
	})
	return root
}
