package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// hangingOpen makes the devices named hang when they are opened, until end is called.
func (f *fixture) hangingOpen(names ...string) (entered chan string, end func()) {
	f.t.Helper()
	release, open := make(chan struct{}), f.server.devices.open
	entered = make(chan string, 100)
	for _, name := range names {
		if err := os.Mkdir(filepath.Join(f.config.Devices, name), 0o755); err != nil {
			f.t.Fatal(err)
		}
	}
	f.server.devices.open = func(path string) (store, *updates.Pending, error) {
		for _, name := range names {
			if filepath.Base(path) == name {
				entered <- name
				<-release
			}
		}
		return open(path)
	}
	return entered, func() { close(release) }
}

// A device that hangs when it is opened is answered with 507, opened once, and holds neither the start nor others.
func TestHangingOpeningHoldsNoOther(t *testing.T) {
	f := newFixture(t)
	entered, end := f.hangingOpen("sdb", "sdc")
	started := make(chan error, 1)
	go func() { started <- f.server.devices.openPresent(50 * time.Millisecond) }()
	<-entered
	<-entered // side by side
	f.mustPut(objectPath, "x", "1700000000.00000")
	if err := <-started; err != nil {
		t.Error(err)
	}
	f.server.devices.wait = time.Millisecond
	for range 2 {
		f.expect(f.do("GET", "/sdb/7/a/c/o", ""), 507, "while it is opened")
	}
	f.server.devices.wait = time.Minute
	f.expect(f.do("GET", objectPath, ""), 200, "another device")
	for _, name := range []string{"sdb", "sdc"} {
		if len(entered) != 0 || strings.Count(f.log.String(), "device cannot be used\" device="+name) != 1 {
			t.Errorf("opened %d times more\n%s", len(entered), f.log.String())
		}
	}
	end()
	for f.do("GET", "/sdb/7/a/c/o", "").status == 507 { // the opening ends by itself
	}
	f.mustPut("/sdb/7/a/c/o", "x", "1700000001.00000")
}

// One call of a name runs at a time; who waits gets its answer, or what was answered last.
func TestAskerDoesNotWaitForever(t *testing.T) {
	a := newAsker[int](true)
	answer := func() (int, error) { return 7, nil }
	if n, err := a.ask("a", time.Minute, answer); n != 7 || err != nil {
		t.Fatal(n, err)
	}
	release, asked := make(chan struct{}), 0
	for range 3 {
		n, err := a.ask("a", time.Millisecond, func() (int, error) {
			asked++
			<-release
			return 8, nil
		})
		if n != 7 || !errors.Is(err, errNoAnswer) {
			t.Error(n, err)
		}
	}
	values, errs := a.askAll([]string{"b", "c"}, func(string) (int, error) { return 9, nil })
	if fmt.Sprint(values, errs) != "[9 9] [<nil> <nil>]" {
		t.Error(values, errs)
	}
	close(release)
	if n, err := a.ask("a", time.Minute, answer); err != nil || n != 8 && n != 7 || asked != 1 {
		t.Error(n, err, asked)
	}
}

// A device that does not answer hides the figures of no other.
func TestReconOfAHangingDevice(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "x", "1700000000.00000")
	f.expect(f.do("GET", "/recon/bundles", ""), 200, "in order")
	defer f.store.stall()()
	f.expect(f.do("GET", "/healthcheck", ""), 200, "healthcheck")
	for _, path := range []string{"bundles", "quarantined", "diskusage", "unmounted", "async"} {
		f.expect(f.do("GET", "/recon/"+path, ""), 200, path)
	}
	if body := f.do("GET", "/recon/bundles", "").body; !strings.Contains(body, `"sda"`) || !strings.Contains(body, `"error":"no answer"`) {
		t.Error(body)
	}
}

// A device in use that does not say whether it is there is answered with 507 until it does.
func TestDeviceInUseThatDoesNotAnswer(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "x", "1700000000.00000")
	f.server.devices.wait = time.Millisecond
	release := make(chan struct{})
	call := f.server.devices.looks.start("sda", func() (fileIdentity, error) { // as a stat that hangs
		<-release
		return f.server.devices.examine(filepath.Join(f.config.Devices, "sda"))
	})
	f.age("sda")
	f.expect(f.do("GET", objectPath, ""), 507, "it hangs")
	f.expect(f.do("GET", objectPath, ""), 507, "it still hangs, by the look of a moment ago")
	close(release)
	<-call.done
	f.server.devices.wait = time.Minute
	f.age("sda")
	f.expect(f.do("GET", objectPath, ""), 200, "it answers")
}

// So many requests are served at once; what tells whether the server works is served beside them.
func TestMaxClients(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MaxClients = 1 })
	f.mustPut(objectPath, "x", "1700000000.00000")
	end := f.store.stall()
	first := make(chan int, 1)
	go func() {
		response, err := http.Head("http://" + f.address + objectPath)
		if err != nil {
			t.Error(err)
			first <- 0
			return
		}
		response.Body.Close()
		first <- response.StatusCode
	}()
	<-f.store.waiting
	refused := f.do("GET", objectPath, "")
	f.expect(refused, 529, "one too many")
	if !strings.Contains(refused.body, "busy with 1 other requests") {
		t.Error(refused.body)
	}
	f.expect(f.do("GET", "/healthcheck", ""), 200, "healthcheck")
	end()
	if status := <-first; status != 200 {
		t.Error(status)
	}
	f.expect(f.do("GET", objectPath, ""), 200, "afterwards")
}

func TestBusyAndStuckDevices(t *testing.T) {
	f := newFixture(t)
	for err, status := range map[error]int{device.ErrBusy: 529, device.ErrStuck: 507} {
		f.store.change(func(s *fakeStore) { s.openErr = fmt.Errorf("%w: for a reason", err) })
		f.expect(f.do("GET", objectPath, ""), status, err.Error())
		f.store.change(func(s *fakeStore) { s.openErr, s.commitErr = nil, err })
		f.expect(f.put(objectPath, "x", "1700000000.00000"), status, err.Error())
		f.store.change(func(s *fakeStore) { s.commitErr = nil })
	}
}

// A device that hangs when it is closed holds neither the others nor the end of the process.
func TestShutdownOfAHangingDevice(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "x", "1700000000.00000")
	end := f.store.stall()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := f.server.devices.close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	end()
}

func TestDescriptorsAreShared(t *testing.T) {
	for _, c := range []struct{ limit, devices, clients, share int }{
		{1 << 20, 12, 1024, 87189},
		{20000, 1, 1024, 17696},
		{20000, 12, 1024, 1474},
		{1024, 4, 1024, 128}, // half for the requests
		{1024, 60, 1024, 0},
		{256, 1, 1024, 128},
	} {
		got, err := (&Config{MaxClients: c.clients}).descriptorsOfDevice(c.limit, c.devices)
		if got != c.share || (err != nil) != (c.share == 0) {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "ulimit -n of 1024 is too small for 60 devices: raise it to 17664 or more") {
			t.Error(err)
		}
	}
	for wanted, want := range map[int]int{0: openFilesMost, 100: 100, 1 << 30: -1} {
		log := &syncBuffer{}
		c := &Config{MaxClients: 10}
		c.Device.OpenFilesMax = wanted
		limit, err := raiseDescriptors()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.shareDescriptors(1, slog.New(slog.NewTextHandler(log, nil))); err != nil {
			t.Fatal(err)
		}
		share, _ := c.descriptorsOfDevice(limit, 1)
		if want = min(want, share); want < 0 {
			want = share
		}
		if c.Device.OpenFilesMax != want || strings.Contains(log.String(), "lowered_to") != (wanted > share) {
			t.Errorf("%d became %d of %d: %s", wanted, c.Device.OpenFilesMax, limit, log.String())
		}
	}
}

type closingStore struct {
	*fakeStore
	closed chan struct{}
	once   sync.Once
}

func (c *closingStore) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// A device that hangs when it is opened does not keep the others from being closed.
func TestHangingOpeningKeepsNoOtherFromClosing(t *testing.T) {
	f := newFixture(t)
	own := &closingStore{fakeStore: f.store, closed: make(chan struct{})}
	open := f.server.devices.open
	f.server.devices.open = func(path string) (store, *updates.Pending, error) {
		_, pending, err := open(path)
		return own, pending, err
	}
	f.mustPut(objectPath, "x", "1700000000.00000")
	entered, end := f.hangingOpen("sdb")
	defer end()
	f.server.devices.wait = time.Millisecond
	f.expect(f.do("GET", "/sdb/7/a/c/o", ""), 507, "while it is opened")
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.server.devices.close(ctx) }()
	select {
	case <-own.closed:
	case <-time.After(time.Minute):
		t.Error("the device in order has not been closed")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A device on which the replay of pending updates hangs does not hold the end of the process.
func TestShutdownWithAHangingReplay(t *testing.T) {
	f := newFixture(t)
	fs := &hangingFS{vfs.OS{}, make(chan struct{}, 100), make(chan struct{})}
	f.server.devices.open = func(path string) (store, *updates.Pending, error) {
		first, err := f.server.updater.Attach(vfs.OS{}, path)
		if err != nil {
			return nil, nil, err
		}
		if _, err := first.Append(0, []updates.Update{{Target: updates.Target{Account: "a", Container: "c"}}}); err != nil {
			return nil, nil, err
		}
		first.Close()
		pending, err := f.server.updater.Attach(fs, path)
		return f.store, pending, err
	}
	f.mustPut(objectPath, "x", "1700000000.00000")
	<-fs.entered
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.server.Shutdown(ctx) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Shutdown waits for the replay")
	}
	close(fs.release)
}

type hangingFS struct {
	vfs.FS
	entered, release chan struct{}
}

func (h *hangingFS) Open(name string) (vfs.File, error) {
	h.entered <- struct{}{}
	<-h.release
	return h.FS.Open(name)
}
