package device

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// versionID is the id of a numbered version; 0 is the null version.
func versionID(n uint64) (id format.VersionID) {
	binary.BigEndian.PutUint64(id[:], n*0x9e3779b97f4a7c15)
	return id
}

// versionChange is one write of a test with versions.
type versionChange struct {
	kind  string // "put", "marker", "remove" or "post", of the null version "hide", "mark" or "keep", or "compact" or "raise", which change nothing
	id    uint64 // 0: the null version
	ticks uint64
}

// stored is what the model has of one version id: its last write that counts.
type stored struct {
	ticks, meta     uint64
	wrote           uint64 // when it was put, also once it is removed
	lives, isMarker bool
	isSeen          bool // a null marker that clients see
}

// versionHistory is what a name with versions has to show.
type versionHistory map[uint64]stored

// chained is a key of a versionHistory: the name has a chain.
const chained = math.MaxUint64

// after is the versionHistory with a change; ok is false if it is to be refused.
func (h versionHistory) after(c versionChange) (next versionHistory, ok bool) {
	was, known := h[c.id]
	now := stored{ticks: c.ticks, meta: c.ticks, wrote: c.ticks, lives: true, isMarker: c.kind == "marker"}
	refused := known && was.ticks >= c.ticks
	switch c.kind {
	case "hide":
		_, now.isMarker = h[chained]
		now.lives = now.isMarker
	case "mark":
		now.isMarker, now.isSeen = true, true
	case "keep":
		now.lives = false
	case "put", "marker":
		if c.id == 0 && was.lives && c.kind == "put" {
			now.meta = max(c.ticks, was.meta) // a newer POST outlives the data it was for
		}
	case "remove":
		now.lives, now.wrote = false, was.wrote
	case "post":
		refused = !was.lives || was.isMarker || was.meta >= c.ticks
		now = was
		now.meta = c.ticks
	}
	if was.lives && was.ticks == c.ticks { // a removal wins over what it removes, a delete over data
		switch c.kind {
		case "remove", "keep":
			refused = false
		case "hide":
			refused = was.isMarker && !was.isSeen
		case "mark", "marker":
			refused = was.isMarker
		}
	}
	if refused {
		return h, false
	}
	next = maps.Clone(h)
	if next == nil {
		next = versionHistory{}
	}
	next[c.id] = now
	if c.id != 0 || c.kind == "mark" || c.kind == "keep" || c.kind == "post" {
		next[chained] = stored{}
	}
	return next, true
}

// String is what a listing of the versionHistory looks like.
func (h versionHistory) String() string {
	var ids []uint64
	for n, v := range h {
		if v.lives {
			ids = append(ids, n)
		}
	}
	slices.SortFunc(ids, func(n, o uint64) int {
		if c := at(h[o].ticks).Compare(at(h[n].ticks)); c != 0 {
			return c
		}
		a, b := versionID(n), versionID(o)
		return bytes.Compare(b[:], a[:])
	})
	var b strings.Builder
	for _, n := range ids {
		fmt.Fprintf(&b, "%d@%d/%d marker %v\n", n, h[n].ticks, h[n].meta, h[n].isMarker)
	}
	return b.String()
}

// do performs a change on the device. A refusal that the versionHistory says is right
// is no error.
func (h versionHistory) do(d *Device, name string, c versionChange) (versionHistory, error) {
	switch c.kind {
	case "compact":
		return h, d.Compact()
	case "raise":
		return h, raiseStep(d)
	}
	steps := h.steps(c, d.options.KeptID != nil)
	ok := len(steps) > 0
	err := doVersion(d, name, c)
	var older *OlderError
	var missing *NotFoundError
	if !ok && (errors.As(err, &older) || c.kind == "post" && errors.As(err, &missing)) {
		return h, nil
	}
	if err == nil && !ok {
		err = fmt.Errorf("%+v is not refused by\n%v", c, h)
	}
	if err != nil {
		return h, fmt.Errorf("%+v: %w", c, err)
	}
	return steps[len(steps)-1], nil
}

func doVersion(d *Device, name string, c versionChange) error {
	loc, id := locate(name, modelBits), versionID(c.id)
	switch c.kind {
	case "put":
		data := modelBody(name, c.ticks)
		u, err := d.NewUpload(loc, int64(len(data)))
		if err != nil {
			return err
		}
		defer u.Abort()
		if _, err := u.Write(data); err != nil {
			return err
		}
		_, err = u.Commit(&format.Metadata{
			Name: name, Size: int64(len(data)), Timestamp: at(c.ticks), VersionID: id,
			User: format.Headers{"X-Object-Meta-Ticks": fmt.Sprint(c.ticks)},
		})
		return err
	case "marker":
		return d.DeleteMarker(loc, at(c.ticks), id, name)
	case "hide":
		_, err := d.Hide(loc, at(c.ticks), name)
		return err
	case "mark":
		_, err := d.MarkNull(loc, at(c.ticks), name)
		return err
	case "keep":
		_, err := d.KeepNull(loc, at(c.ticks), name)
		return err
	case "remove":
		if c.id == 0 {
			_, err := d.Delete(loc, at(c.ticks), name)
			return err
		}
		_, err := d.DeleteVersion(loc, id, at(c.ticks), name)
		return err
	}
	return d.PostVersion(loc, id, func(m *format.Metadata) error {
		if m.MetaTimestamp.Compare(at(c.ticks)) >= 0 {
			return &OlderError{Existing: m.MetaTimestamp}
		}
		m.MetaTimestamp, m.User = at(c.ticks), format.Headers{"X-Object-Meta-Ticks": fmt.Sprint(c.ticks)}
		return nil
	})
}

// numberOf is the number that an id of versionID was made of.
func numberOf(id format.VersionID) uint64 {
	return binary.BigEndian.Uint64(id[:]) * 0xf1de83e19937733d // times its factor: 1
}

// observeVersions reads all versions of a name, in the form of versionHistory.String.
// Bytes that were never written are an error, as is a HEAD or GET that does not
// agree with the listing.
func observeVersions(d *Device, name string) (string, error) {
	loc := locate(name, modelBits)
	page, err := d.ListVersions(loc, versions.Marker{}, 1000)
	var missing *NotFoundError
	if errors.As(err, &missing) {
		return "", nil
	}
	if err != nil || page.Incomplete || page.Count != len(page.Versions) {
		return "", fmt.Errorf("%d versions listed of %d, incomplete %v: %w", len(page.Versions), page.Count, page.Incomplete, err)
	}
	var b strings.Builder
	for i, v := range page.Versions {
		n := numberOf(v.ID)
		marker := v.Type == format.TypeDeleteMarker
		if i == 0 != v.Successor.IsZero() || i > 0 && v.Successor != page.Versions[i-1].Timestamp {
			return "", fmt.Errorf("version %d has successor %v", n, v.Successor)
		}
		meta, err := observeVersion(d, name, n, v, marker)
		if err != nil {
			return "", fmt.Errorf("version %d: %w", n, err)
		}
		fmt.Fprintf(&b, "%d@%d/%d marker %v\n", n, v.Timestamp.Ticks, meta, marker)
	}
	return b.String(), observeNewest(d, loc, page.Versions)
}

func observeVersion(d *Device, name string, n uint64, v versions.Listed, marker bool) (meta uint64, err error) {
	o, err := d.OpenVersion(locate(name, modelBits), v.ID)
	var missing *NotFoundError
	if marker {
		if !errors.As(err, &missing) || !missing.Marker && n != 0 || missing.VersionID != v.ID {
			return 0, fmt.Errorf("a delete marker: %w", err)
		}
		return v.Timestamp.Ticks, nil
	}
	if err != nil {
		return 0, err
	}
	defer o.Close()
	var data bytes.Buffer
	if err := o.WriteRange(&data, 0, o.Metadata().Size); err != nil {
		return 0, err
	}
	m := o.Metadata()
	if m.Timestamp != v.Timestamp || m.VersionID != v.ID || m.Size != int64(v.Size) || m.Name != name ||
		!bytes.Equal(data.Bytes(), modelBody(name, m.Timestamp.Ticks)) {
		return 0, fmt.Errorf("%d bytes, %+v", data.Len(), m)
	}
	if want := fmt.Sprint(m.MetaTimestamp.Ticks); m.User["X-Object-Meta-Ticks"] != want {
		return 0, fmt.Errorf("metadata %v of time %s", m.User, want)
	}
	return m.MetaTimestamp.Ticks, nil
}

// observeNewest compares a HEAD without version id with the listing.
func observeNewest(d *Device, loc Location, listed []versions.Listed) error {
	m, err := d.Head(loc)
	var missing *NotFoundError
	switch {
	case len(listed) == 0 || listed[0].Type == format.TypeDeleteMarker:
		isHiding := len(listed) > 0 && listed[0].ID.IsNull() // clients may see such a marker, or not
		if !errors.As(err, &missing) || missing.Marker != (len(listed) > 0) && !isHiding {
			return fmt.Errorf("HEAD of a name that is gone: %+v, %w", m, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("HEAD: %w", err)
	case m.VersionID != listed[0].ID || m.Timestamp != listed[0].Timestamp:
		return fmt.Errorf("HEAD shows %+v, newest is %+v", m, listed[0])
	}
	return nil
}

// drawVersionChange makes a change; ids and times go together, so that writes
// come in any order.
func drawVersionChange(t *rapid.T, ids uint64, more ...string) versionChange {
	kinds := append([]string{"put", "put", "put", "marker", "remove", "post"}, more...)
	c := versionChange{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	if !slices.Contains(more, c.kind) { // which are of the null version
		c.id = rapid.Uint64Range(0, ids).Draw(t, "id")
	}
	c.ticks = c.id * 10
	if c.kind == "null" || c.kind == "marker" && c.id == 0 {
		c.kind = "put"
	}
	if c.id == 0 {
		c.ticks = rapid.Uint64Range(1, ids*10).Draw(t, "ticks")
	}
	if c.kind == "remove" || c.kind == "post" {
		c.ticks += rapid.SampledFrom([]uint64{0, 1, 55, 1000}).Draw(t, "later")
	}
	return c
}

// A random versionHistory of versions, clean stops, kills and power cuts shows just
// what the model says.
func TestVersionStateMachine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &machine{fs: vfs.NewMem("/d"), model: newModel()}
		kinds := []string{"hide", "mark"}
		if rapid.Bool().Draw(rt, "old null versions are kept") {
			s.keptID, kinds = keptID, []string{"null", "hide", "mark", "keep"}
		}
		s.start(rt)
		const name = "/a/c/heron"
		var h versionHistory
		ids := rapid.SampledFrom([]uint64{4, 20, 150}).Draw(rt, "ids")
		for n := range rapid.SampledFrom([]uint64{0, 5, 70}).Draw(rt, "in order") {
			h = s.version(rt, h, name, versionChange{"put", n + 1, (n + 1) * 10})
		}
		look := func() {
			if got, err := observeVersions(s.device, name); err != nil || got != h.String() {
				rt.Fatalf("%v\n%s want\n%v", err, got, h)
			}
			if err := checkAgreement(s.device, []string{name}, modelBits); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"change":  func(rt *rapid.T) { h = s.version(rt, h, name, drawVersionChange(rt, ids, kinds...)) },
			"compact": func(rt *rapid.T) { h = s.version(rt, h, name, versionChange{kind: "compact"}) },
			"raise":   func(rt *rapid.T) { h = s.version(rt, h, name, versionChange{kind: "raise"}) },
			"look":    func(*rapid.T) { look() },
			"changes": func(rt *rapid.T) { h = s.version(rt, h, name, drawVersionChange(rt, ids, kinds...)) },
			"again": func(rt *rapid.T) {
				old := s.device
				switch rapid.IntRange(0, 2).Draw(rt, "how") {
				case 0:
					if err := old.Close(); err != nil {
						rt.Fatal(err)
					}
				case 1:
					s.fs = s.fs.KillClone()
				case 2:
					s.fs = s.fs.CrashClone(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)))
				}
				s.start(rt)
				_ = old.Close()
			},
		})
		look()
		_ = s.device.Close()
	})
}

func (s *machine) version(rt *rapid.T, h versionHistory, name string, c versionChange) versionHistory {
	next, err := h.do(s.device, name, c)
	if err != nil {
		rt.Fatal(err)
	}
	return next
}

// While it is not known whose record is lost, a version that it may have replaced
// or removed is doubtful, whether or not it is asked for by its id.
func TestVersionsBehindLostRecords(t *testing.T) {
	const name = "/a/c/heron"
	loc, id := locate(name, 1), format.VersionID{1}
	for _, c := range []struct {
		what  string
		id    format.VersionID
		write func(d *Device) error
	}{
		{"a null version that was replaced", format.VersionID{}, func(d *Device) error {
			_, err := put(d, loc, name, 20, body(20, 300))
			return err
		}},
		{"a version that was removed", id, func(d *Device) error {
			_, err := d.DeleteVersion(loc, id, at(20), name)
			return err
		}},
	} {
		mem := vfs.NewMem("/d")
		d := open(t, mem, "/d", Options{})
		must[State](t)(put(d, loc, name, 1, body(1, 300)))
		u := must[*Upload](t)(d.NewUpload(loc, 0))
		if c.id == id {
			must[State](t)(u.Commit(&format.Metadata{Name: name, Timestamp: at(10), VersionID: id}))
		}
		u.Abort()
		end := int64(0)
		for file, size := range files(t, mem) {
			if strings.HasSuffix(file, ".bundle") {
				end = size
			}
		}
		if err := c.write(d); err != nil {
			t.Fatal(err)
		}
		must[State](t)(put(d, Location{Partition: loc.Partition, Hash: format.Hash{1}}, "/a/c/o", 30, body(30, 300)))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for file := range files(t, mem) {
			if strings.HasSuffix(file, ".bundle") {
				damage(t, mem, file, end, 1, func(p []byte) { p[0] ^= 1 })
			}
		}
		d = open(t, mem, "/d", Options{})
		if m, err := d.Head(loc); err != nil || !m.Doubtful {
			t.Errorf("%s: %+v, %v", c.what, m, err)
		}
		if m, err := d.HeadVersion(loc, c.id); err != nil || !m.Doubtful {
			t.Errorf("%s, by its id: %+v, %v", c.what, m, err)
		}
		var doubt *DoubtError
		if _, err := d.HeadVersion(loc, versionID(77)); !errors.Is(err, ErrQuarantined) {
			t.Errorf("%s: a version that may be among what is lost: %v", c.what, err)
		}
		if err := d.PostVersion(loc, c.id, func(m *format.Metadata) error { m.MetaTimestamp = at(40); return nil }); !errors.As(err, &doubt) {
			t.Errorf("%s, POST: %v", c.what, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A write that meets a read error is refused where it would go on without the
// versions that there are. One that meets damage goes on, and says so.
func TestUnreadableHeadLosesNoVersions(t *testing.T) {
	const name, count = "/a/c/heron", 20
	loc := locate(name, 1)
	for _, onDisk := range []bool{false, true} {
		for kind, write := range map[string]func(d *Device, ticks uint64) error{
			"null version": func(d *Device, ticks uint64) error { _, err := put(d, loc, name, ticks, body(1, 300)); return err },
			"version":      func(d *Device, ticks uint64) error { return d.DeleteMarker(loc, at(ticks), versionID(ticks), name) },
			"delete":       func(d *Device, ticks uint64) error { _, err := d.Delete(loc, at(ticks), name); return err },
			"removal": func(d *Device, ticks uint64) error {
				_, err := d.DeleteVersion(loc, versionID(1), at(ticks), name)
				return err
			},
		} {
			var isFailing atomic.Bool
			mem := vfs.NewMem("/d")
			fs := vfs.NewFaults(mem, func(op, path string) error {
				if op == "read" && strings.HasSuffix(path, ".bundle") && isFailing.Load() {
					return syscall.EIO
				}
				return nil
			})
			o := compactOptions
			o.IndexOnDisk, o.compactByHand = onDisk, true
			d := open(t, fs, "/d", o)
			for n := range uint64(count) {
				u := must[*Upload](t)(d.NewUpload(loc, 0))
				must[State](t)(u.Commit(&format.Metadata{Name: name, Timestamp: at(n + 1), VersionID: versionID(n)}))
			}
			isFailing.Store(true)
			if err := write(d, 100); !errors.Is(err, ErrUnknown) {
				t.Errorf("on disk %v: %s: %v", onDisk, kind, err)
			}
			isFailing.Store(false)
			for i := range uint64(100) {
				must[State](t)(put(d, Location{Partition: loc.Partition, Hash: format.Hash{1}}, "/a/c/o", i+1, body(i, 4096)))
			}
			if err := d.Compact(); err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d = open(t, mem, "/d", o)
			for n := range uint64(count) {
				object, err := d.OpenVersion(loc, versionID(n))
				if err != nil {
					t.Fatalf("on disk %v: %s: version %d: %v", onDisk, kind, n, err)
				}
				object.Close()
			}
			if err := write(d, 100); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Whichever read of a POST fails, the other versions stay.
func TestReadErrorsOfPostsLoseNoVersions(t *testing.T) {
	const name = "/a/c/heron"
	loc := locate(name, 1)
	var left atomic.Int32
	mem := vfs.NewMem("/d")
	d := open(t, vfs.NewFaults(mem, func(op, path string) error {
		if op == "read" && strings.HasSuffix(path, ".bundle") && left.Add(-1) == 0 {
			return syscall.EIO
		}
		return nil
	}), "/d", Options{})
	defer d.Close()
	for n := range uint64(20) {
		u := must[*Upload](t)(d.NewUpload(loc, 0))
		must[State](t)(u.Commit(&format.Metadata{Name: name, Timestamp: at(n + 1), VersionID: versionID(n)}))
	}
	for nth := int32(1); ; nth++ {
		left.Store(nth)
		err := d.PostVersion(loc, versionID(3), func(m *format.Metadata) error { m.MetaTimestamp = at(uint64(100 + nth)); return nil })
		if err == nil && left.Load() > 0 {
			break
		}
		left.Store(0)
		for n := range uint64(20) {
			o, err := d.OpenVersion(loc, versionID(n))
			if err != nil {
				t.Fatalf("read %d: version %d: %v", nth, n, err)
			}
			o.Close()
		}
	}
}
