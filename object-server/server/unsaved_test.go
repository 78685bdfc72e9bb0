package server

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// unsavedFixture is a server whose device may have no room for container updates.
type unsavedFixture struct {
	*fixture
	rows   *listings
	isFull atomic.Bool
}

func newUnsavedFixture(t *testing.T) *unsavedFixture {
	f := &unsavedFixture{fixture: newFixture(t, patient), rows: newListings(t)}
	f.open = func(path string) (devices.Store, *updates.Pending, error) {
		opened, err := device.Open(vfs.OS{}, path, f.config.Device)
		if err != nil {
			return nil, nil, err
		}
		files := vfs.NewFaults(vfs.OS{}, func(op, _ string) error {
			if f.isFull.Load() && op != "readdir" {
				return vfs.ErrNoSpace
			}
			return nil
		})
		pending, err := f.server.attach(files, path, opened, time.Hour*24*365*100)
		return devices.NewStore(opened, io.NopCloser(nil)), pending, err
	}
	return f
}

// fails makes it impossible to deliver rows, and to save them.
func (f *unsavedFixture) fails(does bool) {
	f.isFull.Store(does)
	f.rows.down.Store(does)
}

func (f *unsavedFixture) send(want int, method, path string, at int) {
	f.t.Helper()
	got := f.do(method, path, "hello", append(f.rows.headers(), "X-Timestamp", moment(at), "Content-Type", "text/plain")...)
	if got.status != want {
		f.t.Fatalf("%s at %d: %d %s, want %d", method, at, got.status, got.body, want)
	}
}

// closeDevice stops it, and returns its path.
func (f *unsavedFixture) closeDevice() string {
	f.t.Helper()
	if err := f.server.devices.Close(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return filepath.Join(f.config.Devices, "sda")
}

// wantRow waits for a row of a write; false stands for one that deletes.
func (f *unsavedFixture) wantRow(at int, isLive bool) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, row := range f.rows.take(listingPath) {
			if row.CreatedAt == moment(at) && (row.Deleted == 0) == isLive {
				return
			}
		}
	}
	f.t.Fatalf("no row of the write at %d", at)
}

// A write that was refused because its row could not be saved is there: its row comes, without a crash.
func TestTheRowOfARefusedWriteComes(t *testing.T) {
	f := newUnsavedFixture(t)
	f.fails(true)
	f.send(507, "PUT", objectPath, 1)
	f.expect(f.do("GET", objectPath, ""), 200, "GET")
	f.fails(false)
	f.wantRow(1, true)
	f.fails(true)
	f.send(507, "DELETE", objectPath, 2)
	f.expect(f.do("GET", objectPath, ""), 404, "GET")
	f.rows.down.Store(false) // the disk stays full
	f.wantRow(2, false)
}

// A bit that flips in a file of pending rows takes a row: it is made again from the object, and the file is kept.
func TestARowThatDamageHasTakenIsMadeAgain(t *testing.T) {
	f := newUnsavedFixture(t)
	f.rows.down.Store(true)
	f.send(201, "PUT", objectPath, 1)
	folder := filepath.Join(f.config.Devices, "sda", "async_pending*")
	files, err := filepath.Glob(filepath.Join(folder, "*.pending"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-3] ^= 1
	if err := os.WriteFile(files[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	pending := f.server.devices.All()[0].Pending
	isMended := func() bool {
		kept, _ := filepath.Glob(filepath.Join(folder, "*.damaged"))
		return len(kept) == 1 && pending.Count() == 1
	}
	for deadline := time.Now().Add(20 * time.Second); !isMended(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d rows are pending", pending.Count())
		}
	}
	files, _ = filepath.Glob(filepath.Join(folder, "*.pending"))
	text := ""
	for _, name := range files {
		content, _ := os.ReadFile(name)
		text += string(content)
	}
	if !strings.Contains(text, `"created_at":"`+moment(1)) {
		t.Errorf("the files of pending rows have %q", text)
	}
}

// A stop on a full disk leaves the row to the next process.
func TestTheNextProcessMakesTheRowOfARefusedWrite(t *testing.T) {
	f := newUnsavedFixture(t)
	f.fails(true)
	f.send(507, "PUT", objectPath, 1)
	path := f.closeDevice()
	f.fails(false)
	opened, err := device.Open(vfs.OS{}, path, f.config.Device)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	unreported := opened.Unreported()
	if unreported == nil {
		t.Fatal("there was a clean stop, and the row is lost")
	}
	pending, err := f.server.updater.Attach(vfs.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer pending.Close()
	f.server.report(t.Context(), path, unreported, pending, time.Hour*24*365*100)
	if got := pending.Count(); got != 1 {
		t.Errorf("%d rows are pending", got)
	}
}

// Memory for rows that cannot be saved is bounded: then the device takes no write, and has no trace of one.
func TestADeviceWithoutRoomForRowsTakesNoWrites(t *testing.T) {
	f := newUnsavedFixture(t)
	f.send(201, "PUT", objectPath, 1)
	f.fails(true)
	pending := f.server.devices.All()[0].Pending
	many := make([]updates.Update, 10_000)
	for i := range many {
		many[i].Row.CreatedAt = moment(1)
	}
	if err := f.server.updater.Deliver(pending, 0, many); err == nil {
		t.Fatal("they could be saved")
	}
	for _, method := range []string{"PUT", "POST", "DELETE"} {
		got := f.do(method, objectPath, "", append(f.rows.headers(), "X-Timestamp", moment(2), "Content-Type", "text/plain")...)
		if got.status != 507 || !strings.Contains(got.body, "container updates") {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
	}
	got := f.do("GET", objectPath, "")
	if got.status != 200 || got.header.Get("X-Backend-Timestamp") != moment(1) {
		t.Errorf("GET: %d %v", got.status, got.header)
	}
}
