package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"martlet/object-server/updates"
)

// age makes the next request look again whether a device is there.
func (f *fixture) age(name string) {
	f.t.Helper()
	f.server.devices.mu.Lock()
	defer f.server.devices.mu.Unlock()
	if found := f.server.devices.byName[name]; found != nil {
		found.checked.Store(time.Now().Add(-2 * checkEvery).UnixNano())
	}
	if failed, ok := f.server.devices.failed[name]; ok {
		failed.at = time.Time{}
		f.server.devices.failed[name] = failed
	}
}

func TestDevicesComeAndGo(t *testing.T) {
	f := newFixture(t)
	f.expect(f.put("/sdb/7/a/c/o", "x", "1700000000.00000"), 507, "before it is there")
	path := filepath.Join(f.config.Devices, "sdb")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	f.mustPut("/sdb/7/a/c/o", "x", "1700000000.00000")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	f.age("sdb")
	f.expect(f.do("GET", "/sdb/7/a/c/o", ""), 507, "gone")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	f.expect(f.do("GET", "/sdb/7/a/c/o", ""), 200, "another directory of the same name")
	if !strings.Contains(f.log.String(), "device disappeared") {
		t.Error("not logged")
	}
	f.expect(f.do("GET", "/sda/7/a/c/o", ""), 200, "another device")

	// The clock was set back since the last look, and the device is gone again.
	f.server.devices.byName["sdb"].checked.Store(time.Now().Add(time.Hour).UnixNano())
	if err := os.Rename(path, path+".away.again"); err != nil {
		t.Fatal(err)
	}
	f.expect(f.do("GET", "/sdb/7/a/c/o", ""), 507, "gone, by a clock that was set back")
}

func TestMountCheck(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MountCheck = true })
	f.expect(f.put(objectPath, "x", "1700000000.00000"), 507, "a directory that is no mount point")
	if err := os.WriteFile(filepath.Join(f.config.Devices, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.expect(f.put("/file/7/a/c/o", "x", "1700000000.00000"), 507, "a file")
	if _, err := (&mounts{mountCheck: true}).examine("/proc"); err != nil {
		t.Errorf("/proc is a mount point: %v", err)
	}
}

func TestDeviceThatDoesNotOpenIsTriedAgainLater(t *testing.T) {
	f := newFixture(t)
	attempts := 0
	open := f.server.devices.open
	f.server.devices.open = func(path string) (store, *updates.Pending, error) {
		if attempts++; attempts == 1 {
			return nil, nil, errors.New("locked")
		}
		return open(path)
	}
	for range 3 {
		f.expect(f.put(objectPath, "x", "1700000000.00000"), 507, "locked")
	}
	if attempts != 1 || strings.Count(f.log.String(), "device cannot be used") != 1 {
		t.Errorf("%d attempts\n%s", attempts, f.log.String())
	}
	f.age("sda")
	f.mustPut(objectPath, "x", "1700000000.00000")
}
