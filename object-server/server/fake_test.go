package server

import (
	"bytes"
	"io"
	"maps"
	"sync"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
)

// fakeStore keeps objects in memory, by the rules of device.Device, and fails on demand.
type fakeStore struct {
	devices.VersionStore // not used with this store

	mu      sync.Mutex
	objects map[device.Location]*fakeObject
	uploads int // begun and neither committed nor aborted

	out       error // Err
	commitErr error
	openErr   error
	doubtful  bool  // what is stored may not be the newest
	readErr   error // of WriteRange, after readGood bytes
	readGood  int64
	heads     int
	hangs     chan struct{} // if not nil, Head, Stats and Close wait for its end
	waiting   chan struct{} // gets a token for each that begins to wait
}

type fakeObject struct {
	metadata  *format.Metadata // nil for a tombstone
	data      []byte
	tombstone format.Timestamp
}

func newFakeStore() *fakeStore { return &fakeStore{objects: map[device.Location]*fakeObject{}} }

func (f *fakeStore) Stats() device.Stats {
	f.hang()
	return device.Stats{SwiftFiles: true, Flushes: 3, RecordBytes: 10, LiveBytes: 4}
}

func (f *fakeStore) Close() error {
	f.hang()
	return nil
}

// stall makes the store hang until the function it returns is called.
func (f *fakeStore) stall() (end func()) {
	hangs := make(chan struct{})
	f.change(func(f *fakeStore) { f.hangs, f.waiting = hangs, make(chan struct{}, 100) })
	return sync.OnceFunc(func() {
		f.change(func(f *fakeStore) { f.hangs = nil })
		close(hangs)
	})
}

func (f *fakeStore) hang() {
	f.mu.Lock()
	hangs, waiting := f.hangs, f.waiting
	f.mu.Unlock()
	if hangs != nil {
		waiting <- struct{}{}
		<-hangs
	}
}

func (f *fakeStore) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out
}

// change sets what fails, under the lock.
func (f *fakeStore) change(set func(*fakeStore)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set(f)
}

func (f *fakeStore) isEmpty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.objects) == 0
}

func (f *fakeStore) NewUpload(at device.Location, _ int64) (devices.Upload, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uploads++
	return &fakeUpload{store: f, at: at}, nil
}

// newer refuses a write that is not newer than what is stored. The caller holds mu.
func (f *fakeStore) newer(at device.Location, timestamp format.Timestamp) (device.State, error) {
	state := device.State{}
	found := f.objects[at]
	if found == nil {
		return state, nil
	}
	existing := found.tombstone
	if found.metadata != nil {
		existing = found.metadata.Timestamp
		state.Existed, state.Metadata = true, found.metadata
	}
	state.Tombstone = found.tombstone
	if existing.Compare(timestamp) >= 0 {
		return device.State{}, &device.OlderError{Existing: existing}
	}
	return state, nil
}

func (f *fakeStore) lookup(at device.Location) (*fakeObject, error) {
	if f.openErr != nil {
		return nil, f.openErr
	}
	found := f.objects[at]
	if found == nil {
		return nil, &device.NotFoundError{}
	}
	if found.metadata == nil {
		return nil, &device.NotFoundError{Tombstone: found.tombstone}
	}
	m := *found.metadata
	m.Doubtful = f.doubtful
	return &fakeObject{metadata: &m, data: found.data}, nil
}

func (f *fakeStore) Open(at device.Location) (devices.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, err := f.lookup(at)
	if err != nil {
		return nil, err
	}
	return &fakeReader{store: f, fakeObject: found}, nil
}

func (f *fakeStore) Head(at device.Location) (*format.Metadata, error) {
	f.hang()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heads++
	found, err := f.lookup(at)
	if err != nil {
		return nil, err
	}
	return found.metadata, nil
}

func (f *fakeStore) Hide(at device.Location, timestamp format.Timestamp, _ string) (device.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, err := f.newer(at, timestamp)
	if err == nil {
		f.objects[at] = &fakeObject{tombstone: timestamp}
	}
	return state, err
}

func (f *fakeStore) Copy(
	from, to device.Location, edit func(*format.Metadata) error,
) (*format.Metadata, device.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, err := f.lookup(from)
	if err != nil {
		return nil, device.State{}, err
	}
	m := *found.metadata
	m.System, m.User = maps.Clone(m.System), maps.Clone(m.User)
	if err := edit(&m); err != nil {
		return nil, device.State{}, err
	}
	state, err := f.newer(to, m.Timestamp)
	if err == nil {
		f.objects[to] = &fakeObject{metadata: &m, data: found.data}
	}
	return &m, state, err
}

func (f *fakeStore) Post(at device.Location, edit func(*format.Metadata) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, err := f.lookup(at)
	if err != nil {
		return err
	}
	m := *found.metadata
	m.System, m.User = maps.Clone(m.System), maps.Clone(m.User)
	if err := edit(&m); err != nil {
		return err
	}
	f.objects[at] = &fakeObject{metadata: &m, data: found.data}
	return nil
}

type fakeUpload struct {
	store *fakeStore
	at    device.Location
	data  bytes.Buffer
	ended bool
}

func (u *fakeUpload) Write(p []byte) (int, error) { return u.data.Write(p) }

func (u *fakeUpload) Commit(m *format.Metadata) (device.State, error) {
	u.store.mu.Lock()
	defer u.store.mu.Unlock()
	if u.store.commitErr != nil {
		return device.State{}, u.store.commitErr
	}
	state, err := u.store.newer(u.at, m.Timestamp)
	if err == nil {
		if old := state.Metadata; old != nil && old.MetaTimestamp.Compare(m.MetaTimestamp) > 0 {
			m.MetaTimestamp, m.User, m.DeleteAt = old.MetaTimestamp, old.User, old.DeleteAt
		}
		if old := state.Metadata; old != nil && old.TypeTimestamp.Compare(m.TypeTimestamp) > 0 {
			m.TypeTimestamp, m.ContentType = old.TypeTimestamp, old.ContentType
		}
		stored := *m
		u.store.objects[u.at] = &fakeObject{metadata: &stored, data: u.data.Bytes()}
		u.end()
	}
	return state, err
}

func (u *fakeUpload) end() {
	if !u.ended {
		u.ended = true
		u.store.uploads--
	}
}

func (u *fakeUpload) Abort() {
	u.store.mu.Lock()
	defer u.store.mu.Unlock()
	u.end()
}

type fakeReader struct {
	store *fakeStore
	*fakeObject
}

func (r *fakeReader) Metadata() *format.Metadata { return r.metadata }
func (r *fakeReader) Close()                     {}

func (r *fakeReader) WriteRange(w io.Writer, offset, length int64) error {
	r.store.mu.Lock()
	readErr, readGood := r.store.readErr, r.store.readGood
	r.store.mu.Unlock()
	if readErr != nil {
		if readGood > 0 {
			if _, err := w.Write(r.data[offset : offset+readGood]); err != nil {
				return err
			}
		}
		return readErr
	}
	_, err := w.Write(r.data[offset : offset+length])
	return err
}
