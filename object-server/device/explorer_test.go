package device

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"

	"martlet/object-server/vfs"
)

// explorer looks at the states that a power cut may leave at any moment of a
// history: acknowledged writes are there (I1), nothing that was not written
// (I2), the newest version (I3), all or nothing of the rest (I4), a rebuilt
// index shows what the live one did (I5), and the device opens and goes on
// without help, however often it is cut off (I7).
type explorer struct {
	options  Options
	wrap     func(*vfs.Mem) vfs.FS         // between device and disk, where the history is written
	lacks    vfs.Feature                   // of the file system
	limit    int                           // of states for each crash point, about
	isKnown  func(digest uint64) bool      // notes a state; true if another explorer has counted it
	sick     int                           // one of so many states is opened with bad sectors; 0: none is
	begin    func() *model                 // for the history's kind of names
	seen     map[uint64]map[string]version // by digest: what the state showed
	found    explored
	failed   *vfs.Mem // the state that was not as it should be
	isNested bool     // the states are those of an opening
}

// explored counts what an explorer did.
type explored struct {
	changes  int // writes of histories
	kept     int // old null versions that they have kept
	points   int // moments at which the power was cut
	openings int // of these: while a state was being opened
	tried    int // states made
	states   int // distinct ones, each opened and used
	aside    int // large files that opening put into quarantine
	sick     int // openings with bad sectors
	hurt     int // of these: something was hidden or marked
}

func (e *explored) add(o explored) {
	e.changes += o.changes
	e.kept += o.kept
	e.points += o.points
	e.openings += o.openings
	e.tried += o.tried
	e.states += o.states
	e.aside += o.aside
	e.sick += o.sick
	e.hurt += o.hurt
}

// moment is a step of the model, and after how many of the disk it came.
type moment struct {
	position int
	event
}

// run writes a history and cuts the power after each operation on the disk. Each part
// but the first goes on where a clean stop left the device, or one of the power cuts.
func (x *explorer) run(h history) error {
	x.begin = newModel
	if h.versions {
		x.begin = newVersionModel
	}
	x.seen = map[uint64]map[string]version{}
	rng := rand.New(rand.NewPCG(h.seed, 7))
	mem, m := vfs.NewMem("/d"), x.begin()
	mem.Lack(x.lacks)
	for i := range historyParts {
		before := x.settled(m, m.all())
		steps, moments, err := x.write(mem, m, h.part(i))
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		next, after, err := x.cut(steps, moments, before, rng)
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		if next == nil || rng.IntN(2) == 0 {
			next, after = mem.KillClone(), x.settled(m, m.all())
		}
		mem, m = next, after
	}
	return nil
}

// settled is a model of a device that shows all of that, and has nothing in flight.
func (x *explorer) settled(m *model, all map[string]version) *model {
	s := x.begin()
	if err := s.goOn(m, all); err != nil {
		panic(err) // what is shown was compared with the model
	}
	return s
}

// write opens the device, writes a part of a history, and stops it cleanly.
func (x *explorer) write(mem *vfs.Mem, m *model, h history) ([]vfs.Step, []moment, error) {
	start, recording := mem.KillClone(), mem.Record()
	var moments []moment
	m.watch = func(e event) { moments = append(moments, moment{recording.Len(), e}) }
	d, err := Open(x.wrap(mem), "/d", x.options)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(h.run(d, m), d.Close()); err != nil {
		return nil, nil, err
	}
	x.found.changes += h.changes
	x.found.kept += m.kept
	return append([]vfs.Step{{Op: "nothing", State: start}}, recording.Steps()...), moments, nil
}

// cut cuts the power at each step. It returns one of the states that the second half
// of the steps may leave, and what that shows.
func (x *explorer) cut(steps []vfs.Step, moments []moment, at *model, rng *rand.Rand) (next *vfs.Mem, after *model, err error) {
	later := 0
	for i, step := range steps {
		for len(moments) > 0 && moments[0].position <= i {
			at.apply(moments[0].event)
			moments = moments[1:]
		}
		x.found.points++
		for state := range step.State.PowerCuts(rng, x.limit) {
			all, err := x.check(state, at, rng)
			if err != nil {
				return nil, nil, fmt.Errorf("after operation %d of %d, %s %s: %w", i, len(steps)-1, step.Op, step.Name, err)
			}
			if i <= len(steps)/2 {
				continue
			}
			if later++; rng.IntN(later) == 0 { // each is as likely
				next, after = state, x.settled(at, all)
			}
		}
	}
	return next, after, nil
}

// check opens a state unless it has been seen, and compares what it shows with
// the model.
func (x *explorer) check(state *vfs.Mem, m *model, rng *rand.Rand) (all map[string]version, err error) {
	x.found.tried++
	digest := state.Digest()
	all, isSeen := x.seen[digest]
	if isSeen {
		err = m.allowsAll(all)
	} else {
		all, err = x.use(state, digest, m, rng)
		x.seen[digest] = all
		if !x.isKnown(digest) {
			x.found.states++
		}
	}
	if err != nil && x.failed == nil {
		x.failed = state
	}
	return all, err
}

// use opens a state, cuts the power, opens it again, writes, and cuts the power
// again. It returns what the state showed.
func (x *explorer) use(state *vfs.Mem, digest uint64, before *model, rng *rand.Rand) (map[string]version, error) {
	mem := state.KillClone()
	isTraced := !x.isNested && rng.IntN(openingsTraced) == 0
	var recording *vfs.Recording
	if isTraced {
		recording = mem.Record()
	}
	all, d, err := x.open(mem)
	if err != nil {
		return nil, err
	}
	defer d.Close() // nothing more is asked of it
	err = before.allowsAll(all)
	if err == nil {
		err = x.lookAfter(d, mem, state, all, rng)
	}
	if err == nil && isTraced {
		err = x.cutOpening(recording.Steps(), before, rng)
	}
	if err == nil && x.sick > 0 && rng.IntN(x.sick) == 0 {
		err = x.openSick(state, before, all, rng)
	}
	if err != nil {
		return nil, err
	}
	if again := mem.CrashClone(rng); again.Digest() != digest { // opening has changed something
		second, d, err := x.open(again)
		if err != nil || !maps.Equal(all, second) {
			return nil, fmt.Errorf("opened again: %v, %v after %v", err, second, all)
		}
		if err := d.Close(); err != nil {
			return nil, err
		}
	}
	return all, x.goOn(d, mem, x.settled(before, all), rng)
}

// openingsTraced: the power is cut at each step of one of so many openings.
const openingsTraced = 24

// cutOpening cuts the power at each step of an opening. No client has seen what it would have shown, so a write that was
// in flight may still go either way: the journal's note may complete a torn batch that ends in zeros.
func (x *explorer) cutOpening(steps []vfs.Step, m *model, rng *rand.Rand) error {
	x.isNested = true
	defer func() { x.isNested = false }()
	for i, step := range steps {
		x.found.openings++
		for state := range step.State.PowerCuts(rng, x.limit/8) {
			if _, err := x.check(state, m, rng); err != nil {
				return fmt.Errorf("cut off at operation %d of opening, %s %s: %w", i, step.Op, step.Name, err)
			}
		}
	}
	return nil
}

// goOn writes to all names and cuts the power once more.
func (x *explorer) goOn(d *Device, mem *vfs.Mem, m *model, rng *rand.Rand) (err error) {
	for i, name := range modelNames {
		if m.histories != nil {
			err = m.doVersion(d, name, versionChangeAt(rng, 10*smallTicks))
		} else {
			err = m.do(d, change{kinds[(i+rng.IntN(2))%len(kinds)], name, 10*smallTicks + uint64(i)})
		}
		if err != nil {
			return fmt.Errorf("writing after the crash: %w", err)
		}
	}
	last, d, err := x.open(mem.CrashClone(rng))
	if err != nil || !maps.Equal(last, m.all()) {
		return fmt.Errorf("after the crash was written %v; after another one it shows %v: %w", m.all(), last, err)
	}
	if err := x.finishRaise(d, last); err != nil {
		return err
	}
	return d.Close()
}

// finishRaise brings a split to an end, which changes nothing of what the device
// shows.
func (x *explorer) finishRaise(d *Device, before map[string]version) error {
	if err := finishRaise(d); err != nil {
		return err
	}
	return x.same(d, before, "the rest of the split")
}

// same tells whether a device shows what it did.
func (x *explorer) same(d *Device, before map[string]version, since string) error {
	if after, err := x.begin().observeAll(d); err != nil || !maps.Equal(before, after) {
		return fmt.Errorf("after %s it shows %v, %v after %v", since, after, err, before)
	}
	return nil
}

// open opens a device and reads all names.
func (x *explorer) open(fs vfs.FS) (map[string]version, *Device, error) {
	d, err := Open(fs, "/d", x.options)
	if err != nil {
		return nil, nil, err
	}
	all, err := x.begin().observeAll(d)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return all, d, nil
}

// all is what a device shows where nothing has failed.
func (m *model) all() map[string]version {
	all := map[string]version{}
	for _, name := range modelNames {
		all[name] = m.acked[name]
	}
	return all
}

// allowsAll returns an error for what a device that crashed may not show.
func (m *model) allowsAll(all map[string]version) error {
	for name, v := range all {
		if !m.allows(name, v) {
			return m.unexpected(name, v)
		}
	}
	return nil
}
