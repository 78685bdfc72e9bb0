package devices

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"martlet/object-server/updates"
)

func TestDevicesComeAndGo(t *testing.T) {
	f := newFixture(t, false)
	f.expect("sdb", false, "before it is there")
	f.mkdir("sdb")
	f.expect("sdb", true, "once it is there")
	f.rename("sdb", "sdb.away")
	f.age("sdb")
	f.expect("sdb", false, "gone")
	f.mkdir("sdb")
	f.expect("sdb", true, "another directory of the same name")
	if !strings.Contains(f.log.String(), "device disappeared") {
		t.Error("not logged")
	}
	f.expect("sda", true, "another device")

	// The clock was set back since the last look, and the device is gone again.
	f.byName["sdb"].checked.Store(time.Now().Add(time.Hour).UnixNano())
	f.rename("sdb", "sdb.away.again")
	f.expect("sdb", false, "gone, by a clock that was set back")
}

func TestMountCheck(t *testing.T) {
	f := newFixture(t, true)
	f.expect("sda", false, "a directory that is no mount point")
	if err := os.WriteFile(filepath.Join(f.root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.expect("file", false, "a file")
	if _, err := (&Set{mountCheck: true}).examine("/proc"); err != nil {
		t.Errorf("/proc is a mount point: %v", err)
	}
}

func TestDeviceThatDoesNotOpenIsTriedAgainLater(t *testing.T) {
	f := newFixture(t, false)
	attempts := 0
	open := f.open
	f.open = func(path string) (Store, *updates.Pending, error) {
		if attempts++; attempts == 1 {
			return nil, nil, errors.New("locked")
		}
		return open(path)
	}
	f.expect("sda", false, "locked")
	f.prolong("sda")
	for range 2 {
		f.expect("sda", false, "locked")
	}
	if attempts != 1 || strings.Count(f.log.String(), "device cannot be used") != 1 {
		t.Errorf("%d attempts\n%s", attempts, f.log.String())
	}
	f.age("sda")
	f.expect("sda", true, "after the pause")
}
