package marker

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const golden = "../../../test/golden/device-marker"

func newChecker(t *testing.T, mountCheck bool) (*Checker, string, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	path := filepath.Join(t.TempDir(), "d1")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return New("", "s", mountCheck, slog.New(slog.NewTextHandler(log, nil))), path, log
}

func (m *Checker) expect(t *testing.T, path, part string) {
	t.Helper()
	err := m.Check(path)
	if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
		t.Errorf("%s: %v, want %q", path, err, part)
	}
}

func mustMkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func mustRename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestMarkerIsTheSameInBothLanguages(t *testing.T) {
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	m := marker{Cluster: clusterOf("pre\xffix", "suffix"), Device: "d1"}
	if got := m.encode(); !bytes.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, err := readMarker(golden); got != m || err != nil {
		t.Errorf("read %+v, %v", got, err)
	}
}

func TestEmptyMountPointIsNotTakenForTheDevice(t *testing.T) {
	m, path, _ := newChecker(t, false)
	m.expect(t, path, "")
	mustMkdir(t, filepath.Join(path, "bundles"))
	mustRename(t, path, path+".away")
	mustMkdir(t, filepath.Join(path, "lost+found"))
	m.expect(t, path, "was in use and has no martlet-device")
	mustMkdir(t, filepath.Join(path, "bundles")) // by a write that was under way
	m.expect(t, path, "was in use and has no martlet-device")
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	mustRename(t, path+".away", path)
	m.expect(t, path, "")
}

func TestMountedEmptyDeviceIsNew(t *testing.T) {
	m, path, _ := newChecker(t, true)
	m.expect(t, path, "")
	if err := os.Remove(filepath.Join(path, markerName)); err != nil {
		t.Fatal(err)
	}
	m.expect(t, path, "")
	if got, err := readMarker(filepath.Join(path, markerName)); got.Device != "d1" || err != nil {
		t.Errorf("marked %+v", got)
	}
}

// A device older than markers, and one with a damaged marker, are used like others.
func TestDeviceWithDataGetsItsMarker(t *testing.T) {
	m, path, _ := newChecker(t, false)
	mustMkdir(t, filepath.Join(path, "bundles"))
	m.expect(t, path, "")
	for _, rotten := range []string{"", "\x00\x00", "{}", `{"cluster": 1}`} {
		if err := os.WriteFile(filepath.Join(path, markerName), []byte(rotten), 0o600); err != nil {
			t.Fatal(err)
		}
		m.expect(t, path, "")
		if got, err := readMarker(filepath.Join(path, markerName)); got != (marker{m.cluster, "d1"}) || err != nil {
			t.Errorf("marked %+v", got)
		}
	}
}

func TestDeviceOfAnotherNameOrClusterIsRefused(t *testing.T) {
	m, path, _ := newChecker(t, true)
	m.expect(t, path, "")
	other := filepath.Join(filepath.Dir(path), "d2")
	mustRename(t, path, other)
	m.expect(t, other, "is device d1 of cluster "+m.cluster+", not d2")
	mustRename(t, other, path)
	stranger := New("", "other", true, m.logger)
	stranger.expect(t, path, "is device d1 of cluster "+m.cluster+", not d1 of "+stranger.cluster)
	m.expect(t, path, "")
}

func TestWhereNoCopyCanBeKeptTheDeviceIsUsed(t *testing.T) {
	m, path, log := newChecker(t, false)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), knownDirectory), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.expect(t, path, "")
	if !strings.Contains(log.String(), "the copy of the marker is not written") {
		t.Errorf("logged %s", log)
	}
}

const asOtherUser = "MARTLET_TEST_DEVICE"

// Run by TestDeviceOfAnotherUserIsRefused.
func TestAsOtherUser(t *testing.T) {
	path := os.Getenv(asOtherUser)
	if path == "" {
		return
	}
	m := New("", "s", true, slog.Default())
	m.expect(t, path, "permission denied")
}

// Root may write anywhere: the check is made by a process of another user.
func TestDeviceOfAnotherUserIsRefused(t *testing.T) {
	for _, closed := range []string{".", "bundles", "async_pending-1"} {
		m, path, _ := newChecker(t, true)
		for _, made := range []string{"bundles", "async_pending-1"} {
			mustMkdir(t, filepath.Join(path, made))
		}
		m.expect(t, path, "")
		for directory := path; len(directory) > len(os.TempDir()); directory = filepath.Dir(directory) {
			if err := os.Chmod(directory, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, open := range []string{".", "bundles", "async_pending-1"} {
			mode := os.FileMode(0o777)
			if open == closed {
				mode = 0o555
			}
			if err := os.Chmod(filepath.Join(path, open), mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Join(path, markerName), 0o644); err != nil {
			t.Fatal(err)
		}
		command := exec.Command("/proc/self/exe", "-test.run=^TestAsOtherUser$")
		command.Env = append(os.Environ(), asOtherUser+"="+path)
		if os.Geteuid() == 0 {
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			copied := filepath.Join(filepath.Dir(path), "test")
			binary, err := os.ReadFile("/proc/self/exe")
			if err == nil {
				err = os.WriteFile(copied, binary, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			command.Path, command.Dir = copied, "/"
		}
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", closed, err, output)
		}
	}
}

// A device that was full when it was first used must be used again after a restart.
func TestFullDeviceWithoutMarkerHasNoCopy(t *testing.T) {
	m, path, _ := newChecker(t, false)
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=4k,nr_inodes=1"); err != nil {
		t.Skip("needs the right to mount: ", err)
	}
	defer func() { _ = unix.Unmount(path, 0) }()
	m.expect(t, path, "")
	m.expect(t, path, "")
}
