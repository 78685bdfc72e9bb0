package device

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"martlet/object-server/bundle/format"
)

// steps is what a change leaves after each of its records: one, or two if an old
// null version is kept first. None if it is to be refused.
func (h versionHistory) steps(c versionChange, keeps bool) []versionHistory {
	next, ok := h.after(c)
	if !ok || c.kind == "compact" || c.kind == "raise" {
		return nil
	}
	null := h[0]
	kept := keptNumber(null.ticks)
	if _, known := h[kept]; !keeps || known || c.id != 0 || !null.lives || null.isMarker || !h.replacesOld(c) {
		return []versionHistory{next}
	}
	copied := stored{ticks: null.ticks, meta: null.meta, wrote: null.ticks, lives: true}
	first := maps.Clone(h)
	first[kept], first[chained] = copied, stored{}
	next, _ = first.after(c)
	return []versionHistory{first, next}
}

// replacesOld tells whether a change of the null version is one that keeps it.
func (h versionHistory) replacesOld(c versionChange) bool {
	if c.kind != "put" && c.kind != "hide" && c.kind != "mark" {
		return c.kind == "keep"
	}
	for id, v := range h {
		if id != 0 && v.wrote > h[0].ticks && v.wrote < c.ticks {
			return true
		}
	}
	return false
}

// keptNumber is the number of the version that a null version of a time is kept as.
func keptNumber(ticks uint64) uint64 { return ticks | 1<<40 }

// keptID is Options.KeptID of the tests.
func keptID(t format.Timestamp) format.VersionID { return versionID(keptNumber(t.Ticks)) }

// hiddenID is Options.HiddenID of the tests.
func hiddenID(t format.Timestamp) format.VersionID {
	id := versionID(t.Ticks)
	id[0] = 0xC0
	return id
}

// newVersionModel is a model of names with versions, on a device that keeps old
// null versions.
func newVersionModel() *model {
	m := newModel()
	m.histories = map[string]map[version]versionHistory{}
	return m
}

// versionKinds are what a history of names with versions is made of; id 1 stands for
// that of a version.
var versionKinds = []versionChange{
	{kind: "put"}, {kind: "put"}, {kind: "put"}, {kind: "put"}, {kind: "put"}, {kind: "put", id: 1}, {kind: "put", id: 1},
	{kind: "put", id: 1}, {kind: "put", id: 1}, {kind: "hide"}, {kind: "mark"}, {kind: "keep"}, {kind: "marker", id: 1}, {kind: "post"},
	{kind: "post", id: 1}, {kind: "remove", id: 1}, {kind: "remove", id: keptNumber(1)}, {kind: "purge"}, {kind: "compact"},
}

// older lists the versions that a purge removes: all but the newest ones.
func (h versionHistory) older() (all []versionChange) {
	var ids []uint64
	for id, v := range h {
		if id != 0 && v.lives {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(n, o uint64) int { return cmp.Or(cmp.Compare(h[n].ticks, h[o].ticks), cmp.Compare(n, o)) })
	for _, id := range ids[:max(len(ids)-versionsLeft, 0)] {
		all = append(all, versionChange{kind: "remove", id: id})
	}
	return all
}

// versionsLeft is how many versions a purge leaves.
const versionsLeft = 3

// purge removes many versions of a name at once on device and model. A crash leaves
// the first removals done, or none.
func (m *model) purge(d *Device, name string, ticks uint64) error {
	m.mu.Lock()
	h := m.histories[name][m.acked[name]]
	m.mu.Unlock()
	changes := h.older()
	for i, next := 0, h; i < len(changes); i++ {
		c := changes[i]
		c.ticks = ticks
		next, _ = next.after(c)
		m.note(false, name, next)
	}
	after, err := h.removeMany(d, name, changes, ticks)
	if err == nil && len(changes) > 0 {
		m.note(true, name, after)
	}
	return err
}

// versionChangeAt makes a change at about a time. The id of a version is its time,
// which no null version has.
func versionChangeAt(rng *rand.Rand, ticks uint64) versionChange {
	c := versionKinds[rng.IntN(len(versionKinds))]
	before := 2 * (ticks - min(ticks, rng.Uint64N(8)))
	switch c.ticks = 2 * ticks; {
	case c.id > 1:
		c.id = keptNumber(before)
	case c.id == 1 && (c.kind == "remove" || c.kind == "post"):
		c.id = before + 1
	case c.id == 1:
		c.ticks++
		c.id = c.ticks
	}
	return c
}

// doVersion performs a change of a name with versions on device and model.
// Refusals that the model knows to be right are no error.
func (m *model) doVersion(d *Device, name string, c versionChange) error {
	if c.kind == "purge" {
		return m.purge(d, name, c.ticks)
	}
	m.mu.Lock()
	h := m.histories[name][m.acked[name]]
	m.mu.Unlock()
	if _, known := h[c.id]; c.kind == "remove" && !known {
		return nil // whether a crash came before it or after would not show
	}
	steps := h.steps(c, true)
	m.note(false, name, steps...)
	if _, err := h.do(d, name, c); err != nil || len(steps) == 0 {
		return err
	}
	m.note(true, name, steps[len(steps)-1])
	m.mu.Lock()
	m.kept += len(steps) - 1
	m.mu.Unlock()
	return nil
}

// note says what a name is to show, once it is acknowledged, or may show.
func (m *model) note(acked bool, name string, all ...versionHistory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range all {
		m.apply(event{acked: acked, name: name, version: h.version(), history: h})
	}
}

// version is what a name with that history shows.
func (h versionHistory) version() version {
	_, isChained := h[chained]
	return version{isChained: isChained, versions: h.String()}
}

// learn notes the history behind an event. A name has one writer: what was tried
// before the last acknowledged change is over.
func (m *model) learn(e *event) {
	if m.histories[e.name] == nil {
		m.histories[e.name] = map[version]versionHistory{}
	}
	m.histories[e.name][e.version] = e.history
	if e.acked {
		m.tried[e.name] = nil
	}
}

// goOn begins a model with what a device showed of what was written before.
func (m *model) goOn(before *model, all map[string]version) error {
	maps.Copy(m.acked, all)
	if m.histories == nil {
		return nil
	}
	for name, v := range all {
		h, ok := before.histories[name][v]
		if !ok && v != (version{}) {
			return before.unexpected(name, v)
		}
		m.histories[name] = map[version]versionHistory{v: h}
	}
	return nil
}

// observeAll is what a device shows under all names of the model.
func (m *model) observeAll(d *Device) (map[string]version, error) {
	all := map[string]version{}
	for _, name := range modelNames {
		v, err := m.observeOne(d, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = v
	}
	return all, checkAgreement(d, modelNames, modelBits)
}

// observeOne is what a device shows under a name of the model.
func (m *model) observeOne(d *Device, name string) (version, error) {
	if m.histories == nil {
		return observe(d, name)
	}
	versions, err := observeVersions(d, name)
	if err != nil {
		return version{}, err
	}
	isChained, err := hasChain(d, locate(name, modelBits))
	return version{isChained: isChained, versions: versions}, err
}

// hasChain tells whether a name has versions, or had.
func hasChain(d *Device, at Location) (bool, error) {
	s, err := d.existing(at)
	var missing *NotFoundError
	if errors.As(err, &missing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer s.done()
	head, buffer, err := s.bundle.ReadHead(at.Hash)
	defer buffer.Free()
	return head != nil && head.Versioned(), err
}
