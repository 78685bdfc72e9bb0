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
	options Options
	wrap    func(*vfs.Mem) vfs.FS         // between device and disk, where the history is written
	lacks   vfs.Feature                   // of the file system
	limit   int                           // of states for each crash point, about
	begin   func() *model                 // for the history's kind of names
	seen    map[uint64]map[string]version // by digest: what the state showed
	found   explored
	failed  *vfs.Mem // the state that was not as it should be
}

// explored counts what an explorer did.
type explored struct {
	changes int // writes of histories
	kept    int // old null versions that they have kept
	points  int // moments at which the power was cut
	tried   int // states made
	states  int // distinct ones, each opened and used
}

func (e *explored) add(o explored) {
	e.changes += o.changes
	e.kept += o.kept
	e.points += o.points
	e.tried += o.tried
	e.states += o.states
}

// moment is a step of the model, and after how many of the disk it came.
type moment struct {
	position int
	event
}

// run writes a history and cuts the power after each operation on the disk.
func (x *explorer) run(h history) error {
	x.begin = newModel
	if h.versions {
		x.begin = newVersionModel
	}
	mem, m := vfs.NewMem("/d"), x.begin()
	mem.Lack(x.lacks)
	start, recording := mem.KillClone(), mem.Record()
	var moments []moment
	m.watch = func(e event) { moments = append(moments, moment{recording.Len(), e}) }
	d, err := Open(x.wrap(mem), "/d", x.options)
	if err != nil {
		return err
	}
	if err := errors.Join(h.run(d, m), d.Close()); err != nil {
		return err
	}
	x.found.changes += h.changes
	x.found.kept += m.kept
	x.seen = map[uint64]map[string]version{}
	rng := rand.New(rand.NewPCG(h.seed, 7))
	at, steps := x.begin(), append([]vfs.Step{{Op: "nothing", State: start}}, recording.Steps()...)
	for i, step := range steps {
		for len(moments) > 0 && moments[0].position <= i {
			at.apply(moments[0].event)
			moments = moments[1:]
		}
		x.found.points++
		for state := range step.State.PowerCuts(rng, x.limit) {
			x.found.tried++
			if err := x.check(state, at, rng); err != nil {
				x.failed = state
				return fmt.Errorf("after operation %d of %d, %s %s: %w", i, len(steps)-1, step.Op, step.Name, err)
			}
		}
	}
	return nil
}

// check opens a state unless it has been seen, and compares what it shows with
// the model.
func (x *explorer) check(state *vfs.Mem, m *model, rng *rand.Rand) error {
	digest := state.Digest()
	all, isKnown := x.seen[digest]
	if !isKnown {
		var err error
		if all, err = x.use(state, digest, m, rng); err != nil {
			return err
		}
		x.seen[digest] = all
		x.found.states++
	}
	for name, v := range all {
		if !m.allows(name, v) {
			return m.unexpected(name, v)
		}
	}
	return nil
}

// use opens a state, cuts the power, opens it again, writes, and cuts the power
// again. It returns what the state showed.
func (x *explorer) use(state *vfs.Mem, digest uint64, before *model, rng *rand.Rand) (map[string]version, error) {
	all, d, err := x.open(state)
	if err != nil {
		return nil, err
	}
	defer d.Close()    // nothing more is asked of it
	if digest%2 == 0 { // else it goes on in the middle of it
		if err := x.finishRaise(d, all); err != nil {
			return nil, err
		}
	}
	if again := state.CrashClone(rng); again.Digest() != digest { // opening has changed something
		second, d, err := x.open(again)
		if err != nil || !maps.Equal(all, second) {
			return nil, fmt.Errorf("opened again: %v, %v after %v", err, second, all)
		}
		if err := d.Close(); err != nil {
			return nil, err
		}
	}
	m := x.begin()
	if err := m.goOn(before, all); err != nil {
		return nil, err
	}
	for i, name := range modelNames {
		if m.histories != nil {
			err = m.doVersion(d, name, versionChangeAt(rng, 10*smallTicks))
		} else {
			err = m.do(d, change{kinds[(i+rng.IntN(2))%len(kinds)], name, 10*smallTicks + uint64(i)})
		}
		if err != nil {
			return nil, fmt.Errorf("writing after the crash: %w", err)
		}
	}
	last, d, err := x.open(state.CrashClone(rng))
	if err != nil || !maps.Equal(last, m.all()) {
		return nil, fmt.Errorf("after the crash was written %v; after another one it shows %v: %w", m.all(), last, err)
	}
	if err := x.finishRaise(d, last); err != nil {
		return nil, err
	}
	return all, d.Close()
}

// finishRaise brings a split to an end, which changes nothing of what the device
// shows.
func (x *explorer) finishRaise(d *Device, before map[string]version) error {
	if err := finishRaise(d); err != nil {
		return err
	}
	if after, err := x.begin().observeAll(d); err != nil || !maps.Equal(before, after) {
		return fmt.Errorf("after the rest of the split: %v, %v after %v", err, after, before)
	}
	return nil
}

// open opens a device and reads all names.
func (x *explorer) open(fs *vfs.Mem) (map[string]version, *Device, error) {
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
