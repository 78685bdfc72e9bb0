package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/updates"
)

// checkEvery is how often a device in use is checked for being still there, and one that failed to open is tried again.
const checkEvery = time.Second

// mounts are the devices below one directory, opened when first used. Safe for concurrent use.
type mounts struct {
	root       string
	mountCheck bool
	logger     *slog.Logger
	open       func(path string) (store, *updates.Pending, error)
	wait       time.Duration // of a request for a device; answerWait

	openings *asker[*mount]       // side by side: one that hangs holds those alone that want the same device
	looks    *asker[fileIdentity] // whether a device in use is still there

	mu       sync.RWMutex
	byName   map[string]*mount      // guarded by mu
	failed   map[string]failedMount // that could not be opened; guarded by mu
	outages  map[string]outage      // of devices that were taken out; guarded by mu
	isClosed bool                   // guarded by mu
}

type failedMount struct {
	at    time.Time     // of the last attempt to open it; zero if it was not there
	pause time.Duration // until the next one
	err   error
}

// mount is one open device.
type mount struct {
	name     string
	path     string
	identity fileIdentity
	store    store
	pending  *updates.Pending
	checked  atomic.Int64 // when path was seen to be this device, Unix nanoseconds
	isSilent atomic.Bool  // it does not answer whether it is there

	use    sync.RWMutex // held for reading by requests, for writing to close
	closed bool         // guarded by use
}

// fileIdentity tells one directory, and one mounted file system, from another of the same name.
type fileIdentity struct{ device, inode uint64 }

func identify(path string) (fileIdentity, error) {
	var status syscall.Stat_t
	if err := syscall.Stat(path, &status); err != nil {
		return fileIdentity{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if status.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return fileIdentity{}, &os.PathError{Op: "stat", Path: path, Err: syscall.ENOTDIR}
	}
	return fileIdentity{device: status.Dev, inode: status.Ino}, nil
}

var errNotMounted = errors.New("not a mount point")

// examine tells which device is at path now.
func (s *mounts) examine(path string) (fileIdentity, error) {
	identity, err := identify(path)
	if err != nil || !s.mountCheck {
		return identity, err
	}
	parent, err := identify(filepath.Dir(path))
	if err != nil {
		return identity, err
	}
	if parent.device == identity.device && parent.inode != identity.inode {
		return identity, fmt.Errorf("%s: %w", path, errNotMounted)
	}
	return identity, nil
}

// acquire returns a device for one request, which must release it. A device that is missing, not mounted or broken is
// a 507.
func (s *mounts) acquire(name string) (*mount, error) {
	s.mu.RLock()
	found := s.byName[name]
	s.mu.RUnlock()
	if found == nil || !s.isPresent(found) {
		var err error
		if found, err = s.openMount(name, s.wait); err != nil {
			return nil, unavailable(name)
		}
	}
	if found.isSilent.Load() {
		return nil, unavailable(name)
	}
	if err := found.store.Err(); err != nil {
		s.drop(found, err)
		return nil, unavailable(name)
	}
	found.use.RLock()
	if found.closed {
		found.use.RUnlock()
		return nil, unavailable(name)
	}
	return found, nil
}

func (s *mount) release() { s.use.RUnlock() }

func unavailable(name string) *failure {
	return fail(http.StatusInsufficientStorage, "The device %s is not available.", name)
}

// isPresent checks now and then that the device is still the one that was opened; one that is gone is closed. One
// that does not answer may be there.
func (s *mounts) isPresent(found *mount) bool {
	now := time.Now().UnixNano()
	last := found.checked.Load()
	isFresh := last <= now && now-last < int64(checkEvery) // last is later when the clock was set back
	if isFresh || !found.checked.CompareAndSwap(last, now) {
		return true
	}
	identity, err := s.looks.ask(found.name, s.wait, func() (fileIdentity, error) { return s.examine(found.path) })
	isSilent := errors.Is(err, errNoAnswer)
	if found.isSilent.Swap(isSilent) != isSilent {
		s.logger.Warn("device answers, or does not", "device", found.name, "answers", !isSilent)
	}
	if isSilent || err == nil && identity == found.identity {
		return true
	}
	s.logger.Error("device disappeared", "device", found.name, "error", err)
	s.mu.Lock()
	if s.byName[found.name] == found {
		delete(s.byName, found.name)
	}
	s.mu.Unlock()
	go found.close(s.logger)
	return false
}

// openMount opens a device unless another request just did, or failed to. It goes on behind a caller that has waited
// long enough, with errNoAnswer.
func (s *mounts) openMount(name string, wait time.Duration) (*mount, error) {
	found, err := s.openings.ask(name, wait, func() (*mount, error) { return s.openNow(name) })
	if errors.Is(err, errNoAnswer) {
		s.noteFailure(name, err, time.Time{})
	}
	return found, err
}

// openNow opens a device. No two run for one device.
func (s *mounts) openNow(name string) (*mount, error) {
	path := filepath.Join(s.root, name)
	identity, err := s.examine(path)
	if err != nil {
		s.noteFailure(name, err, time.Time{}) // looking again costs nothing
		return nil, err
	}
	s.mu.RLock()
	found, failed := s.byName[name], s.failed[name]
	s.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	if time.Since(failed.at) < failed.pause {
		return nil, failed.err
	}
	opened, pending, err := s.open(path)
	if err != nil {
		s.noteFailure(name, err, time.Now())
		return nil, err
	}
	found = &mount{name: name, path: path, identity: identity, store: opened, pending: pending}
	found.checked.Store(time.Now().UnixNano())
	if !s.publish(found) {
		found.close(s.logger)
		return nil, device.ErrClosed
	}
	s.logger.Info("device opened", "device", name)
	return found, nil
}

// publish makes a device known; false if the server has been shut down meanwhile.
func (s *mounts) publish(found *mount) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return false
	}
	s.byName[found.name] = found
	delete(s.failed, found.name)
	return true
}

// failedMax bounds how many names of absent devices are remembered; names come from requests.
const failedMax = 1024

// noteFailure logs why a device cannot be opened, once until the reason changes.
func (s *mounts) noteFailure(name string, err error, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed[name].err == nil || s.failed[name].err.Error() != err.Error() {
		s.logger.Error("device cannot be used", "device", name, "error", err)
	}
	if len(s.failed) >= failedMax {
		clear(s.failed)
	}
	s.failed[name] = failedMount{at: at, pause: checkEvery, err: err}
}

// startWait is how long a server waits for its devices before it accepts requests. A device that takes longer, to
// replay a journal or because it hangs, is opened behind them.
const startWait = 10 * time.Second

// openPresent opens the devices that are there at start, so that what is pending on them is delivered.
func (s *mounts) openPresent(wait time.Duration) error {
	names, err := s.present()
	if err != nil {
		return fmt.Errorf("the devices directory cannot be read: %w", err)
	}
	var all sync.WaitGroup
	for _, name := range names {
		all.Add(1)
		go func() {
			defer all.Done()
			_, _ = s.openMount(name, wait) // logged; answered with 507 until it works
		}()
	}
	all.Wait()
	return nil
}

// present lists the directories of devices. It looks at none of them.
func (s *mounts) present() ([]string, error) {
	entries, err := os.ReadDir(s.root)
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && isDeviceName(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// all returns the open devices.
func (s *mounts) all() []*mount {
	s.mu.RLock()
	defer s.mu.RUnlock()
	open := make([]*mount, 0, len(s.byName))
	for _, found := range s.byName {
		open = append(open, found)
	}
	return open
}

// close closes all devices once their requests have ended, side by side. A device that does not answer until ctx ends
// is left as it is, as by a crash: nothing acknowledged is lost.
func (s *mounts) close(ctx context.Context) error {
	s.mu.Lock()
	s.isClosed = true
	s.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var all sync.WaitGroup
		for _, c := range s.openings.calls() { // closes what it opens, as it comes too late
			all.Add(1)
			go func() {
				defer all.Done()
				<-c.done
			}()
		}
		for _, found := range s.all() {
			all.Add(1)
			go func() {
				defer all.Done()
				found.close(s.logger)
			}()
		}
		all.Wait()
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("devices do not answer and are not closed: %w", ctx.Err())
	}
}

func (s *mount) close(logger *slog.Logger) {
	s.use.Lock()
	defer s.use.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.pending.Close()
	if err := s.store.Close(); err != nil {
		logger.Error("closing device", "device", s.name, "error", err)
	}
}
