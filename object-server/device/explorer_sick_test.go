package device

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/device/journal"
	"martlet/object-server/device/partpower"
	"martlet/object-server/vfs"
)

// badSpan is a part of a file that the disk cannot read.
type badSpan struct {
	file     string
	from, to int64
}

// sickness is what is wrong with a disk: some sectors cannot be read, or not at first.
type sickness struct {
	spans []badSpan
	left  atomic.Int64 // so many more reads fail
}

func (s *sickness) isBad(name string, from, to int64) bool {
	return s.meets(name, from, to) && s.left.Add(-1) >= 0
}

func (s *sickness) meets(name string, from, to int64) bool {
	return slices.ContainsFunc(s.spans, func(b badSpan) bool { return b.file == name && b.from < to && from < b.to })
}

// String says what is wrong.
func (s *sickness) String() string { return fmt.Sprintf("%+v, %d reads left", s.spans, s.left.Load()) }

// newSickness makes one to three sectors or pages bad.
func newSickness(files vfs.FS, rng *rand.Rand) *sickness {
	var all []badSpan
	walk(files, "/d", func(path string, entry fs.DirEntry) {
		if info, err := entry.Info(); err == nil && info.Size() > 0 {
			all = append(all, badSpan{path, 0, info.Size()})
		}
	})
	s := &sickness{}
	for range min(1+rng.IntN(3), len(all)) {
		b := all[rng.IntN(len(all))]
		unit := []int64{512, 512, 4096}[rng.IntN(3)]
		b.from = rng.Int64N(b.to) / unit * unit
		b.to = b.from + unit
		s.spans = append(s.spans, b)
	}
	s.join()
	s.left.Store(1 << 60)
	if rng.IntN(4) == 0 {
		s.left.Store(1 + rng.Int64N(3))
	}
	return s
}

// join makes one span of those in one block: between two bad sectors of a block nothing is read.
func (s *sickness) join() {
	for i := range s.spans {
		for j := range s.spans {
			a, b := &s.spans[i], &s.spans[j]
			if a.file == b.file && a.from/segment.BlockSize == b.from/segment.BlockSize {
				a.from, a.to = min(a.from, b.from), max(a.to, b.to)
			}
		}
	}
}

// mayRefuse tells whether the device may refuse to be opened: its journal, or all that
// tells where names lie, cannot be read.
func (s *sickness) mayRefuse() bool {
	powers := 0
	for _, b := range s.spans {
		if filepath.Base(filepath.Dir(b.file)) == journal.Directory {
			return true
		}
		if _, ok := partpower.TrimSuffix(b.file); ok {
			powers++
		}
	}
	return powers > 1
}

// touched is what lies in bad spans.
type touched struct {
	names map[format.Hash]bool // of which a record or a large file does; and torn
	torn  map[format.Hash]bool // those of which a record in the same file does not prove itself, or lies behind one that was torn
	tail  bool                 // what a cut has left behind the last record of a segment
}

// touched is sickness.touched of a state, and of what opening it makes of it: a journal
// is replayed.
func (x *explorer) touched(s *sickness, state *vfs.Mem) (touched, error) {
	all, err := s.touched(state)
	if err != nil {
		return all, err
	}
	mem := state.KillClone()
	d, err := Open(mem, "/d", x.options)
	if err != nil {
		return all, err
	}
	defer d.Close() // nothing is asked of it
	after, err := s.touched(mem)
	maps.Copy(all.names, after.names)
	maps.Copy(all.torn, after.torn)
	all.tail = all.tail || after.tail
	return all, err
}

// touched finds what lies in bad spans. A record that a cut has torn stays there: while
// it, or one of its batch, cannot be read, it might have been acknowledged.
func (s *sickness) touched(files vfs.FS) (all touched, failed error) {
	all = touched{names: map[format.Hash]bool{}, torn: map[format.Hash]bool{}}
	walk(files, "/d", func(path string, _ fs.DirEntry) {
		if !strings.HasSuffix(path, ".bundle") {
			return
		}
		isMet, last, end := s.meets(path, 0, math.MaxInt64), uint64(0), int64(0)
		err := eachEntry(files, path, func(e *inspect.Entry) {
			end = e.Offset + e.Length
			if r := e.Record; r != nil {
				last = r.LSN()
				if s.meets(path, e.Offset, e.Offset+e.Length) || s.meetsLarge(r.LargeID) {
					all.names[r.Hash()] = true
				}
			}
			if e.Damage == nil || !isMet {
				return
			}
			for _, l := range e.Damage.Lost {
				all.names[l.Hash], all.torn[l.Hash] = true, true
			}
		})
		all.tail = all.tail || s.meets(path, end, math.MaxInt64)
		if err == nil && isMet {
			err = eachEntry(vfs.NewBadSectors(files, s.meets), path, func(e *inspect.Entry) {
				if r := e.Record; r != nil && r.LSN() > last {
					all.names[r.Hash()], all.torn[r.Hash()] = true, true
				}
			})
		}
		failed = errors.Join(failed, err)
	})
	return all, failed
}

// eachEntry scans a segment.
func eachEntry(files vfs.FS, path string, use func(e *inspect.Entry)) error {
	scan, err := inspect.OpenScan(files, path, true)
	if err != nil {
		return err
	}
	defer scan.Close() // only read from
	for {
		e, err := scan.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		use(e)
	}
}

func (s *sickness) meetsLarge(id uint64) bool {
	name := fmt.Sprintf("%016x.data", id)
	return id != 0 && slices.ContainsFunc(s.spans, func(b badSpan) bool { return filepath.Base(b.file) == name })
}

// openSick opens a state on a disk that cannot read some of it. What lies elsewhere is
// served, nothing that was deleted comes back unmarked, what is there is not said not to
// be, and damage that is met is told. Then the disk is well again: all is there.
func (x *explorer) openSick(state *vfs.Mem, m *model, all map[string]version, rng *rand.Rand) error {
	s, mem := newSickness(state, rng), state.KillClone()
	touched, err := x.touched(s, state)
	if err != nil {
		return err
	}
	x.found.sick++
	d, err := Open(vfs.NewBadSectors(mem, s.isBad), "/d", x.options)
	if err != nil && !s.mayRefuse() {
		return fmt.Errorf("%s: %w", s, err)
	}
	writes := err == nil && rng.IntN(2) == 0
	if err == nil {
		isHurt, err := x.judge(d, m, all, touched.names, nil)
		if err == nil && isHurt && isUntold(d) {
			err = errors.New("no damage is told")
		}
		if err == nil && writes {
			m, all = m.copy(), maps.Clone(all)
			err = x.writeSick(d, m, all, touched.names, rng)
		}
		if err = errors.Join(err, d.Close()); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if isHurt {
			x.found.hurt++
		}
	}
	if err := x.heal(mem.KillClone(), m, all, touched, writes); err != nil {
		return fmt.Errorf("well again after %s, writes %v: %w", s, writes, err)
	}
	return nil
}

func isUntold(d *Device) bool {
	told, more := d.Damages()
	return len(told)+more == 0
}

// heal opens a device whose disk can read all again. A name of which nothing was in
// flight is as ever, unless the device was written to. Then records were given up for
// what could not be read: older ones are doubtful, and a name that lost some goes on
// without them. Of a name in flight, or that has a torn record from an earlier cut, it
// may count what is torn: while it could not be read it might have been acknowledged.
// A write to such a name makes that last. Where torn bytes behind the last record could
// not be read, they may have been records of any name, and the stop after it keeps the
// doubt.
func (x *explorer) heal(mem *vfs.Mem, m *model, all map[string]version, touched touched, written bool) error {
	d, err := Open(mem, "/d", x.options)
	if err != nil {
		return err
	}
	mayHide, either := touched.torn, map[format.Hash]bool(nil)
	if written {
		mayHide, either = touched.names, touched.torn
	}
	_, err = x.judge(d, m, all, mayHide, either)
	for _, name := range modelNames {
		if err != nil || written || touched.tail || !m.isQuiet(name) || mayHide[locate(name, modelBits).Hash] {
			continue
		}
		var now version
		if now, err = x.begin().observeOne(d, name); err == nil && !m.allows(name, now) {
			err = m.unexpected(name, now)
		}
	}
	return errors.Join(err, d.Close())
}

// judge compares what a device with bad sectors shows with the model, and tells
// whether it hides or marks anything. Of names in either nothing is known.
func (x *explorer) judge(d *Device, m *model, all map[string]version, touched, either map[format.Hash]bool) (isHurt bool, err error) {
	for _, name := range modelNames {
		if either[locate(name, modelBits).Hash] {
			continue
		}
		judge := m.judgeOne
		if m.histories != nil {
			judge = m.judgeVersions
		}
		mustShow := !touched[locate(name, modelBits).Hash] && m.isQuiet(name) && all[name] == m.acked[name]
		isHidden, err := judge(d, name, mustShow)
		if err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
		isHurt = isHurt || isHidden
	}
	return isHurt, nil
}

// isQuiet tells whether nothing of a name is in flight.
func (m *model) isQuiet(name string) bool {
	return !slices.ContainsFunc(m.tried[name], func(v version) bool { return v != m.acked[name] && m.allows(name, v) })
}

// judgeOne looks at a name without versions, which must show an object if it has one.
func (m *model) judgeOne(d *Device, name string, mustShow bool) (isHurt bool, err error) {
	v, isDoubtful, err := observeMarked(d, name)
	acked := m.acked[name]
	switch {
	case errors.Is(err, ErrQuarantined):
		if mustShow && acked.ticks > 0 && !acked.deleted {
			return true, fmt.Errorf("its record can be read, but it is not served: %v", err)
		}
		return true, nil
	case err != nil:
		return false, err
	case m.allows(name, v) || isDoubtful && !mustShow:
		return isDoubtful, nil
	}
	return false, m.unexpected(name, v)
}

// judgeVersions looks at all versions of a name.
func (m *model) judgeVersions(d *Device, name string, mustShow bool) (isHurt bool, err error) {
	may, must := map[string]bool{}, map[string]bool{}
	for _, v := range append([]version{m.acked[name]}, m.tried[name]...) {
		for line := range strings.Lines(v.versions) {
			may[line] = true
		}
	}
	for line := range strings.Lines(m.acked[name].versions) {
		must[line] = true
	}
	loc := locate(name, modelBits)
	page, err := d.ListVersions(loc, versions.Marker{}, 1000)
	var missing *NotFoundError
	if err != nil && !errors.As(err, &missing) {
		return false, err
	}
	isHurt = page.Incomplete
	for _, v := range page.Versions {
		n, isMarker := numberOf(v.ID), v.Type == format.TypeDeleteMarker
		meta, err := observeVersion(d, name, n, v, isMarker)
		if errors.Is(err, ErrQuarantined) && (!mustShow || isMarker) { // a doubtful one has no other way to say so
			delete(must, fmt.Sprintf("%d@%d/%d marker true\n", n, v.Timestamp.Ticks, v.Timestamp.Ticks))
			isHurt = true
			continue
		}
		if err != nil {
			return isHurt, fmt.Errorf("version %d: %w", n, err)
		}
		line := fmt.Sprintf("%d@%d/%d marker %v\n", n, v.Timestamp.Ticks, meta, isMarker)
		delete(must, line)
		head, err := d.HeadVersion(loc, v.ID)
		isDoubtful := err == nil && head.Doubtful
		isHurt = isHurt || isDoubtful
		if !may[line] && (!isDoubtful && !page.Incomplete || mustShow) {
			return isHurt, fmt.Errorf("shows %s of acknowledged\n%s, doubtful %v, %v", line, m.acked[name].versions, isDoubtful, err)
		}
	}
	if len(must) > 0 && m.isQuiet(name) && (mustShow || !isHurt) {
		return isHurt, fmt.Errorf("shows %d of %d versions, and lacks %v, incomplete %v, %v",
			len(page.Versions), page.Count, must, page.Incomplete, err)
	}
	return isHurt, nil
}

// writeSick writes to names of which nothing is in flight. Only what cannot be read may
// be in the way.
func (x *explorer) writeSick(d *Device, m *model, all map[string]version, touched map[format.Hash]bool, rng *rand.Rand) error {
	for _, name := range modelNames {
		if !m.isQuiet(name) || all[name] != m.acked[name] || rng.IntN(2) == 0 {
			continue
		}
		ticks := 20*smallTicks + rng.Uint64N(7)
		var err error
		if m.histories == nil {
			err = m.do(d, change{"put", name, ticks})
		} else {
			err = m.doVersion(d, name, versionChange{"put", ticks, ticks})
		}
		if err != nil && (!touched[locate(name, modelBits).Hash] || !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrQuarantined)) {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		all[name] = m.acked[name]
	}
	return nil
}

// copy is a model that goes its own way.
func (m *model) copy() *model {
	c := m.clone()
	if m.histories != nil {
		c.histories = map[string]map[version]versionHistory{}
		for name, all := range m.histories {
			c.histories[name] = all
		}
	}
	return c
}
