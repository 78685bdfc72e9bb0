package devices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/server/calls"
	"martlet/object-server/updates"
)

// checkEvery is how often the server checks that a device in use is still there, and tries to open one that failed.
const checkEvery = time.Second

// Options say where the devices are and how they are opened.
type Options struct {
	Root       string // directory with one directory for each device
	MountCheck bool   // a directory that is no mount point is not a device
	Logger     *slog.Logger
	Wait       time.Duration // of a request for a device; 0 means calls.Wait

	// Open opens the device at path, and the container updates that wait on it.
	Open func(path string) (Store, *updates.Pending, error)
}

// Set are the devices below one directory, opened when first used. Safe for concurrent use.
type Set struct {
	root       string
	mountCheck bool
	logger     *slog.Logger
	open       func(path string) (Store, *updates.Pending, error)
	wait       time.Duration

	openings *calls.Group[*Mount]       // in parallel: a device that hangs delays only requests for it
	looks    *calls.Group[fileIdentity] // whether a device in use is still there

	mu       sync.RWMutex
	byName   map[string]*Mount      // guarded by mu
	failed   map[string]failedMount // that could not be opened; guarded by mu
	outages  map[string]outage      // of devices that were taken out; guarded by mu
	isClosed bool                   // guarded by mu
}

type failedMount struct {
	at    time.Time     // of the last attempt to open it; zero if it was not there
	pause time.Duration // until the next one
	err   error
}

// New returns the devices below options.Root; none is open yet.
func New(options Options) *Set {
	if options.Wait == 0 {
		options.Wait = calls.Wait
	}
	return &Set{
		root: options.Root, mountCheck: options.MountCheck, logger: options.Logger, open: options.Open, wait: options.Wait,
		openings: calls.New[*Mount](false), looks: calls.New[fileIdentity](false),
		byName: map[string]*Mount{}, failed: map[string]failedMount{}, outages: map[string]outage{},
	}
}

// Mount is one open device.
type Mount struct {
	Name    string
	Store   Store
	Pending *updates.Pending // container updates that wait on this device

	path     string
	identity fileIdentity
	checked  atomic.Int64 // last check that path is this device, Unix nanoseconds
	isSilent atomic.Bool  // the last check got no answer

	use    sync.RWMutex // held for reading by requests, for writing to close
	closed bool         // guarded by use
}

// UnavailableError means that a device is missing, not mounted, broken or does not answer.
type UnavailableError struct{ Device string }

func (e *UnavailableError) Error() string { return "device " + e.Device + " is not available" }

// fileIdentity distinguishes directories, and mounted file systems, of the same name.
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

// examine returns the identity of the directory at path. With mount_check it must be a mount point.
func (s *Set) examine(path string) (fileIdentity, error) {
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

// IsThere looks whether a device is in its place, and mounted where it must be.
func (s *Set) IsThere(name string) bool {
	_, err := s.examine(filepath.Join(s.root, name))
	return err == nil
}

// Acquire returns a device for one request, which must release it, or an UnavailableError.
func (s *Set) Acquire(name string) (*Mount, error) {
	s.mu.RLock()
	found := s.byName[name]
	s.mu.RUnlock()
	if found == nil || !s.isPresent(found) {
		var err error
		if found, err = s.openMount(name, s.wait); err != nil {
			return nil, &UnavailableError{Device: name}
		}
	}
	if found.isSilent.Load() {
		return nil, &UnavailableError{Device: name}
	}
	if err := found.Store.Err(); err != nil {
		s.drop(found, err)
		return nil, &UnavailableError{Device: name}
	}
	found.use.RLock()
	if found.closed {
		found.use.RUnlock()
		return nil, &UnavailableError{Device: name}
	}
	return found, nil
}

// Release ends the use of a device that Acquire returned.
func (s *Mount) Release() { s.use.RUnlock() }

// isPresent checks from time to time that the device is still the one that was opened. A device that is gone is closed; one
// that does not answer may still be there.
func (s *Set) isPresent(found *Mount) bool {
	now := time.Now().UnixNano()
	last := found.checked.Load()
	isFresh := last <= now && now-last < int64(checkEvery) // last is later than now if the clock was set back
	if isFresh || !found.checked.CompareAndSwap(last, now) {
		return true
	}
	identity, err := s.looks.Do(found.Name, s.wait, func() (fileIdentity, error) { return s.examine(found.path) })
	isSilent := errors.Is(err, calls.ErrNoAnswer)
	if found.isSilent.Swap(isSilent) != isSilent {
		message := "device answers again"
		if isSilent {
			message = "device does not answer"
		}
		s.logger.Warn(message, "device", found.Name, "answers", !isSilent)
	}
	if isSilent || err == nil && identity == found.identity {
		return true
	}
	s.logger.Error("device disappeared", "device", found.Name, "error", err)
	s.mu.Lock()
	if s.byName[found.Name] == found {
		delete(s.byName, found.Name)
	}
	s.mu.Unlock()
	go found.close(s.logger)
	return false
}

// openMount opens a device, or joins a request that opens it. After wait the caller gets calls.ErrNoAnswer, and the
// opening goes on in the background.
func (s *Set) openMount(name string, wait time.Duration) (*Mount, error) {
	found, err := s.openings.Do(name, wait, func() (*Mount, error) { return s.openNow(name) })
	if errors.Is(err, calls.ErrNoAnswer) {
		s.noteFailure(name, err, time.Time{})
	}
	return found, err
}

// openNow opens a device. It never runs twice at a time for one device.
func (s *Set) openNow(name string) (*Mount, error) {
	path := filepath.Join(s.root, name)
	identity, err := s.examine(path)
	if err != nil {
		s.noteFailure(name, err, time.Time{}) // the next look costs nothing
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
	found = &Mount{Name: name, path: path, identity: identity, Store: opened, Pending: pending}
	found.checked.Store(time.Now().UnixNano())
	if !s.publish(found) {
		found.close(s.logger)
		return nil, device.ErrClosed
	}
	s.logger.Info("device opened", "device", name)
	return found, nil
}

// publish makes an open device available. It returns false if the server was shut down meanwhile.
func (s *Set) publish(found *Mount) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return false
	}
	s.byName[found.Name] = found
	delete(s.failed, found.Name)
	return true
}

// failedMax bounds the names of absent devices in memory; names come from requests.
const failedMax = 1024

// noteFailure logs why a device cannot be opened; it logs the same reason once.
func (s *Set) noteFailure(name string, err error, at time.Time) {
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

// StartWait is how long a server waits for its devices before it accepts requests. A device that takes longer, because it
// replays a journal or hangs, is opened in the background.
const StartWait = 10 * time.Second

// OpenPresent opens the devices that are there at start, so that the updates on them are delivered.
func (s *Set) OpenPresent(wait time.Duration) error {
	names, err := s.Names()
	if err != nil {
		return fmt.Errorf("the devices directory cannot be read: %w", err)
	}
	var all sync.WaitGroup
	for _, name := range names {
		all.Add(1)
		go func() {
			defer all.Done()
			_, _ = s.openMount(name, wait) // it is logged; requests get 507 until it works
		}()
	}
	all.Wait()
	return nil
}

// Names lists the directories of devices. It does not look into them.
func (s *Set) Names() ([]string, error) {
	entries, err := os.ReadDir(s.root)
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && IsName(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// All returns the open devices.
func (s *Set) All() []*Mount {
	s.mu.RLock()
	defer s.mu.RUnlock()
	open := make([]*Mount, 0, len(s.byName))
	for _, found := range s.byName {
		open = append(open, found)
	}
	return open
}

// Close closes all devices in parallel, each after its requests have ended. A device that does not answer until ctx ends
// is left as after a crash: acknowledged data are not lost.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	s.isClosed = true
	s.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var all sync.WaitGroup
		for _, returned := range s.openings.Running() { // an opening that ends now closes its device
			all.Add(1)
			go func() {
				defer all.Done()
				<-returned
			}()
		}
		for _, found := range s.All() {
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

func (s *Mount) close(logger *slog.Logger) {
	s.use.Lock()
	defer s.use.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.Pending.Close()
	if err := s.Store.Close(); err != nil {
		logger.Error("closing device", "device", s.Name, "error", err)
	}
}

// IsName reports whether a name can be that of a device. Hidden names cannot.
func IsName(name string) bool {
	return name != "" && name[0] != '.' && len(name) <= 255 && !strings.ContainsAny(name, "/\x00")
}
