package devices

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"martlet/object-server/proof"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// fixture is a host with a device called sda.
type fixture struct {
	*Set
	t     *testing.T
	store *fakeStore // of every device
	log   *proof.Log
}

func newFixture(t *testing.T, mountCheck bool) *fixture {
	t.Helper()
	f := &fixture{t: t, store: &fakeStore{}, log: &proof.Log{}}
	logger := slog.New(slog.NewTextHandler(f.log, nil))
	updater := updates.New(updates.Options{RetryFirst: time.Hour, Interval: time.Hour, Logger: logger})
	t.Cleanup(updater.Close)
	f.Set = New(Options{
		Root: t.TempDir(), MountCheck: mountCheck, Logger: logger,
		Wait: time.Minute, // the disk of a busy machine takes longer than a request may wait
		Open: func(path string) (Store, *updates.Pending, error) {
			pending, err := updater.Attach(vfs.OS{}, path)
			return f.store, pending, err
		},
	})
	f.mkdir("sda")
	return f
}

func (f *fixture) mkdir(name string) {
	f.t.Helper()
	if err := os.Mkdir(filepath.Join(f.root, name), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) rename(from, to string) {
	f.t.Helper()
	if err := os.Rename(filepath.Join(f.root, from), filepath.Join(f.root, to)); err != nil {
		f.t.Fatal(err)
	}
}

// isAvailable uses a device as a request does.
func (f *fixture) isAvailable(name string) bool {
	f.t.Helper()
	found, err := f.Acquire(name)
	if err == nil {
		found.Release()
		return true
	}
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) || unavailable.Device != name {
		f.t.Errorf("%s: %v", name, err)
	}
	return false
}

func (f *fixture) expect(name string, want bool, when string) {
	f.t.Helper()
	if f.isAvailable(name) != want {
		f.t.Errorf("%s: device %s is available: %v", when, name, !want)
	}
}

// age makes the next request look again whether a device is there.
func (f *fixture) age(name string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.byName[name]; found != nil {
		found.checked.Store(time.Now().Add(-2 * checkEvery).UnixNano())
	}
	if failed, ok := f.failed[name]; ok {
		failed.at = time.Time{}
		f.failed[name] = failed
	}
}

// prolong makes the pause of a device that failed as many hours as it has seconds.
func (f *fixture) prolong(name string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	failed := f.failed[name]
	failed.pause *= 3600
	f.failed[name] = failed
}

// fakeStore is a device that can fail, and hang when it is closed.
type fakeStore struct {
	Store // of no test here

	mu    sync.Mutex
	out   error         // of Err
	hangs chan struct{} // if not nil, Close waits for its end
}

func (s *fakeStore) set(out error, hangs chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out, s.hangs = out, hangs
}

func (s *fakeStore) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out
}

func (s *fakeStore) Close() error {
	s.mu.Lock()
	hangs := s.hangs
	s.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return nil
}
