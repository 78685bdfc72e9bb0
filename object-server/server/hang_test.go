package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/devices"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

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

// A device that is not there is answered with 507, one that was taken out is shown as not mounted.
func TestDeviceThatIsNotAvailable(t *testing.T) {
	f := newFixture(t)
	missing := f.put("/sdb/7/a/c/o", "x", "1700000000.00000")
	f.expect(missing, 507, "before it is there")
	if missing.body != "The device sdb is not available.\n" {
		t.Error(missing.body)
	}
	f.mustPut(objectPath, "x", "1700000000.00000")
	// The first pause is a second. It may be over before the test has looked, so the next one is longer.
	for pause := time.Second; ; pause *= 2 {
		f.store.change(func(s *fakeStore) { s.out = device.ErrOut })
		start := time.Now()
		f.expect(f.do("GET", objectPath, ""), 507, "taken out")
		f.store.change(func(s *fakeStore) { s.out = nil })
		later, shown := f.do("GET", objectPath, ""), f.do("GET", "/recon/unmounted", "")
		if time.Since(start) < pause {
			f.expect(later, 507, "in the pause")
			if shown.body != `[{"device":"sda","mounted":false}]` {
				t.Errorf("recon shows %s", shown.body)
			}
			return
		}
		f.await("the end of the pause", func() bool { return f.do("GET", objectPath, "").status == 200 })
	}
}

// At most max_clients requests are served at once; monitoring is always served.
func TestMaxClients(t *testing.T) {
	f := newFixture(t, func(c *conf.Config) { c.MaxClients = 1 })
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

// A device on which the replay of pending updates hangs does not delay the end of the process.
func TestShutdownWithAHangingReplay(t *testing.T) {
	f := newFixture(t)
	fs := &hangingFS{vfs.OS{}, make(chan struct{}, 100), make(chan struct{})}
	f.open = func(path string) (devices.Store, *updates.Pending, error) {
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
