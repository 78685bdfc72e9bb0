package server

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/devices"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

func init() {
	noteEvery, mendEvery, pendingPatience = 500*time.Millisecond, 100*time.Millisecond, 3*time.Second
}

// newMendFixture is a server whose container servers are down, with files of pending rows on a file system of its own.
func newMendFixture(t *testing.T, files vfs.FS) (f *unsavedFixture, opened *device.Device) {
	f = &unsavedFixture{fixture: newFixture(t, patient, func(c *conf.Config) { c.UpdaterInterval = 200 * time.Millisecond }), rows: newListings(t)}
	f.open = func(path string) (devices.Store, *updates.Pending, error) {
		var err error
		if opened, err = device.Open(vfs.OS{}, path, f.config.Device); err != nil {
			return nil, nil, err
		}
		pending, err := f.server.attach(files, path, opened, time.Hour*24*365*100)
		return devices.NewStore(opened, io.NopCloser(nil)), pending, err
	}
	f.rows.down.Store(true)
	f.send(201, "PUT", objectPath, 1)
	return f, opened
}

func (f *unsavedFixture) pendingFiles(suffix string) []string {
	f.t.Helper()
	found, err := filepath.Glob(filepath.Join(f.config.Devices, "sda", "async_pending*", "*"+suffix))
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

// hasPendingRow tells whether the row of the first write is in a file, undamaged.
func (f *unsavedFixture) hasPendingRow() bool {
	for _, name := range f.pendingFiles(".pending") {
		if content, _ := os.ReadFile(name); strings.Contains(wholeFrames(content), `"created_at":"`+moment(1)) {
			return true
		}
	}
	return false
}

// Where a disk reads nothing of what is written there, rows are made again at longer and longer intervals: each time makes
// a file.
func TestRowsAreNotMadeAgainWithoutEnd(t *testing.T) {
	f, _ := newMendFixture(t, vfs.NewBadSectors(vfs.OS{}, func(name string, _, _ int64) bool {
		return strings.HasSuffix(name, ".pending")
	}))
	for deadline := time.Now().Add(time.Minute); len(f.pendingFiles(".damaged")) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no damage is found")
		}
	}
	time.Sleep(4 * time.Second)
	if kept := f.pendingFiles(".damaged"); len(kept) > 6 {
		t.Errorf("%d files are kept after 4 s", len(kept))
	}
}

// A file that an operator, or a check of the file system, has taken away had rows.
func TestRowsOfAFileThatIsGoneAreMadeAgain(t *testing.T) {
	f, _ := newMendFixture(t, vfs.OS{})
	for _, name := range f.pendingFiles(".pending") {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); !f.hasPendingRow(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the row is lost")
		}
	}
}

// From the time when damage is known until the rows are pending again, no hand-off is given back.
func TestNoHandOffIsGivenBackBeforeItsRowsAreMadeAgain(t *testing.T) {
	f, opened := newMendFixture(t, vfs.OS{})
	for _, name := range f.pendingFiles(".pending") {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		content[20] ^= 1
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pending := f.server.devices.All()[0].Pending
	for deadline := time.Now().Add(time.Minute); pending.Figures().Damaged == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	partitions, err := opened.Partitions(0)
	if err != nil || len(partitions) != 1 {
		t.Fatal(partitions, err)
	}
	r := opened.Replica(0, partitions[0])
	at, err := r.Position()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Drop(at); err == nil && !f.hasPendingRow() { // it may have been made again by now
		t.Error("the partition is given back, though the row of its object is lost")
	}
}
