package device

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// version is what one name shows: an object with data written at ticks and
// metadata of meta, or a tombstone, or nothing at all (zero). In a model with
// versions it is all of them instead.
type version struct {
	ticks, meta uint64
	deleted     bool

	isChained bool
	versions  string // of versionHistory
}

// model is what a device must hold: the newest acknowledged version of each
// name, and versions that were tried but not acknowledged.
type model struct {
	mu    sync.Mutex
	acked map[string]version
	tried map[string][]version
	watch func(event) // if set, hears of everything below in order

	histories map[string]map[version]versionHistory // of a model with versions: what stands behind what a name showed
	kept      int                                   // old null versions
}

// event is a step of a write: tried, or acknowledged.
type event struct {
	acked bool
	name  string
	version
	history versionHistory // of a model with versions
}

func newModel() *model {
	return &model{acked: map[string]version{}, tried: map[string][]version{}}
}

func (m *model) clone() *model {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &model{acked: maps.Clone(m.acked), tried: map[string][]version{}}
	for name, versions := range m.tried {
		c.tried[name] = slices.Clone(versions)
	}
	return c
}

func (m *model) try(name string, v version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.apply(event{name: name, version: v})
}

func (m *model) ack(name string, v version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.apply(event{acked: true, name: name, version: v})
}

// apply takes a step; m.mu is held, or m is not shared yet.
func (m *model) apply(e event) {
	if e.acked {
		m.acked[e.name] = e.version
	} else {
		m.tried[e.name] = append(m.tried[e.name], e.version)
	}
	if m.histories != nil {
		m.learn(&e)
	}
	if m.watch != nil {
		m.watch(e)
	}
}

// allows tells whether a device that crashed may show v: the acknowledged
// version, or one that was tried and is newer.
func (m *model) allows(name string, v version) bool {
	acked := m.acked[name]
	if v == acked {
		return true
	}
	for _, t := range m.tried[name] {
		if t == v && (m.histories != nil || t.supersedes(acked)) {
			return true
		}
	}
	return false
}

// supersedes tells whether v wins over w: a delete wins over data of its time.
func (v version) supersedes(w version) bool {
	return v.ticks > w.ticks || v.ticks == w.ticks && (v.meta > w.meta || v.deleted && !w.deleted)
}

// unexpected is the error for what a name may not show.
func (m *model) unexpected(name string, v version) error {
	return fmt.Errorf("%s shows %+v, acknowledged %+v, tried %+v", name, v, m.acked[name], m.tried[name])
}

// modelBits spreads the names of a model over this many partition bits.
const modelBits = 1

// modelSpill is the threshold for large files in model tests.
const modelSpill = 16 << 10

var modelOptions = Options{SpillBytes: modelSpill, SegmentBytes: 64 << 10, CheckpointBytes: 8 << 10, Logger: quiet}

// smallTicks is the time from which on the objects of a model are small, for
// tests that look at very many states, with smallSpill and segments of a few
// records.
const (
	smallTicks = 1_000_000
	smallSpill = 2 << 10
)

// modelSize is the size of the object written at a time: empty, small, several
// chunks' worth, or large.
func modelSize(ticks uint64) int {
	if ticks >= smallTicks {
		return [...]int{0, 40, 300, 600, 1400, smallSpill + 100, 700}[ticks%7]
	}
	return [...]int{0, 100, 1500, 5000, 4096, modelSpill + 3000, 66_000}[ticks%7]
}

// observe reads a name; bytes that were never written there are an error.
func observe(d *Device, name string) (version, error) {
	v, _, err := observeMarked(d, name)
	return v, err
}

// observeMarked is observe, and tells whether the object is marked doubtful.
func observeMarked(d *Device, name string) (v version, isDoubtful bool, err error) {
	data, m, err := get(d, locate(name, modelBits))
	var gone *NotFoundError
	if errors.As(err, &gone) {
		return version{ticks: gone.Tombstone.Ticks, deleted: !gone.Tombstone.IsZero()}, false, nil
	}
	if err != nil {
		return version{}, false, err
	}
	ticks := m.Timestamp.Ticks
	if m.Name != name || !bytes.Equal(data, modelBody(name, ticks)) {
		return version{}, false, fmt.Errorf("%s shows %d bytes of %s that were not written at %d", name, len(data), m.Name, ticks)
	}
	if want := fmt.Sprint(m.MetaTimestamp.Ticks); m.User["X-Object-Meta-Ticks"] != want {
		return version{}, false, fmt.Errorf("%s: metadata %v of time %s", name, m.User, want)
	}
	return version{ticks: ticks, meta: m.MetaTimestamp.Ticks}, m.Doubtful, nil
}

func modelBody(name string, ticks uint64) []byte {
	return body(ticks*1000+uint64(len(name))+uint64(name[len(name)-1]), modelSize(ticks))
}

// change is one write of a model test.
type change struct {
	kind  string // "put", "post", "delete", or of no name: "compact", "raise"
	name  string
	ticks uint64
}

// do performs a change on device and model. Refusals that the model knows to be
// right are no error.
func (m *model) do(d *Device, c change) error {
	switch c.kind {
	case "compact":
		return d.Compact()
	case "raise":
		return raiseStep(d)
	}
	loc := locate(c.name, modelBits)
	m.mu.Lock()
	before := m.acked[c.name]
	m.mu.Unlock()
	var next version
	var err error
	switch c.kind {
	case "put":
		next = version{ticks: c.ticks, meta: c.ticks}
		if !before.deleted {
			next.meta = max(c.ticks, before.meta) // a newer POST outlives the data it was for
		}
		m.try(c.name, next)
		_, err = put(d, loc, c.name, c.ticks, modelBody(c.name, c.ticks))
	case "delete":
		next = version{ticks: c.ticks, deleted: true}
		m.try(c.name, next)
		_, err = d.Delete(loc, at(c.ticks), c.name)
	case "post":
		next = version{ticks: before.ticks, meta: c.ticks}
		m.try(c.name, next)
		err = d.Post(loc, func(md *format.Metadata) error {
			if md.MetaTimestamp.Compare(at(c.ticks)) >= 0 {
				return &OlderError{Existing: md.MetaTimestamp}
			}
			md.MetaTimestamp, md.User = at(c.ticks), format.Headers{"X-Object-Meta-Ticks": fmt.Sprint(c.ticks)}
			return nil
		})
		var gone *NotFoundError
		if errors.As(err, &gone) && (before.deleted || before.ticks == 0) {
			return nil
		}
	}
	var older *OlderError
	if errors.As(err, &older) && (c.ticks <= before.ticks || c.kind == "post" && c.ticks <= before.meta) {
		return nil
	}
	if err == nil {
		m.ack(c.name, next)
	}
	return err
}

var modelNames = []string{"/a/c/heron", "/a/c/crane", "/a/c/auk", "/a/c/wren"}

// checkAll compares every name with the model. With exact, only acknowledged
// versions may show.
func (m *model) checkAll(d *Device, exact bool) error {
	for _, name := range modelNames {
		v, err := observe(d, name)
		if err != nil {
			return err
		}
		if v == m.acked[name] || !exact && m.allows(name, v) {
			continue
		}
		return m.unexpected(name, v)
	}
	return checkAgreement(d, modelNames, modelBits)
}

// observeAll is what a device shows under all names.
func observeAll(d *Device) (map[string]version, error) {
	all := map[string]version{}
	for _, name := range modelNames {
		v, err := observe(d, name)
		if err != nil {
			return nil, err
		}
		all[name] = v
	}
	return all, checkAgreement(d, modelNames, modelBits)
}

func openModel(t testing.TB, fs vfs.FS) *Device {
	t.Helper()
	return open(t, fs, "/d", modelOptions)
}
