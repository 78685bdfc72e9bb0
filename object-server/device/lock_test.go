package device

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// lockClock is the clock of devices in tests, in ticks.
type lockClock struct{ ticks uint64 }

func (c *lockClock) now() time.Time { return time.UnixMicro(int64(c.ticks) * 10) }

const lockedName = "/a/c/heron"

var lockedAt = locate(lockedName, modelBits)

// putLocked writes a version; id 0 is the null version.
func putLocked(d *Device, id, ticks uint64, size int, lock *format.Lock) error {
	data := body(ticks, size)
	u, err := d.NewUpload(lockedAt, int64(len(data)))
	if err != nil {
		return err
	}
	defer u.Abort()
	if _, err := u.Write(data); err != nil {
		return err
	}
	m := format.Metadata{Name: lockedName, Size: int64(len(data)), Timestamp: at(ticks), Lock: lock}
	if id != 0 {
		m.VersionID = versionID(id)
	}
	_, err = u.Commit(&m)
	return err
}

// setLock merges a lock into that of a version.
func setLock(d *Device, id uint64, lock *format.Lock) error {
	var of format.VersionID
	if id != 0 {
		of = versionID(id)
	}
	return d.PostVersion(lockedAt, of, func(m *format.Metadata) error {
		m.Lock = format.MergeLocks(m.Lock, lock)
		return nil
	})
}

func removeLocked(d *Device, id, ticks uint64, bypass bool) error {
	var of format.VersionID
	if id != 0 {
		of = versionID(id)
	}
	var err error
	switch {
	case bypass && id == 0:
		_, err = d.BypassHide(lockedAt, at(ticks), lockedName)
	case bypass:
		_, err = d.BypassVersion(lockedAt, of, at(ticks), lockedName)
	case id == 0:
		_, err = d.Hide(lockedAt, at(ticks), lockedName)
	default:
		_, err = d.DeleteVersion(lockedAt, of, at(ticks), lockedName)
	}
	return err
}

// A locked version stays until its time, in each way that a version goes; so do large ones,
// after compaction and after a restart.
func TestLockedVersionStays(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 5, "large": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &lockClock{50}
			fs := vfs.NewMem("/d")
			options := Options{Clock: clock.now, compactByHand: true}
			d := open(t, fs, "/d", options)
			for _, err := range []error{
				putLocked(d, 0, 5, size, nil), putLocked(d, 1, 10, size, &format.Lock{Compliance: 100}),
				putLocked(d, 2, 20, size, &format.Lock{Governance: 100, Governed: at(20)}),
				putLocked(d, 3, 30, size, &format.Lock{Hold: true, Held: at(30)}), setLock(d, 0, &format.Lock{Hold: true, Held: at(40)}),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			wantLocked(t, d, 60)
			clock.ticks = 99
			wantLocked(t, d, 2000) // by a request that is ahead of the clock of this host
			clock.ticks = 2000
			wantLocked(t, d, 99) // by one that is behind
			if err := d.Compact(); err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			clock.ticks = 60
			d = open(t, fs, "/d", options)
			wantLocked(t, d, 60)
			wantVersions(t, d, 4)
			if err := removeLocked(d, 2, 61, true); err != nil {
				t.Fatalf("governance is not bypassed: %v", err)
			}
			clock.ticks = 100
			if err := removeLocked(d, 1, 100, false); err != nil {
				t.Fatalf("a lock that has ended: %v", err)
			}
			for id := range uint64(4) {
				if id == 0 || id == 3 {
					if err := errors.Join(setLock(d, id, &format.Lock{Held: at(110)}), removeLocked(d, id, 120, false)); err != nil {
						t.Fatalf("a hold that was released: %v", err)
					}
				}
			}
			page := must[VersionPage](t)(d.ListVersions(lockedAt, versions.Marker{}, 10))
			for _, v := range page.Versions {
				if v.Type != format.TypeDeleteMarker {
					t.Fatalf("%v is left", v)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// wantLocked tries all removals of the four versions at a time; version 2 is under governance.
func wantLocked(t *testing.T, d *Device, ticks uint64) {
	t.Helper()
	for id := range uint64(4) {
		if err := removeLocked(d, id, ticks, false); !errors.Is(err, ErrLocked) {
			t.Fatalf("removal of version %d: %v", id, err)
		}
		if id == 2 {
			continue
		}
		if err := removeLocked(d, id, ticks, true); !errors.Is(err, ErrLocked) {
			t.Fatalf("removal of version %d with a bypass: %v", id, err)
		}
	}
	all, err := d.DeleteVersions(lockedAt, []format.VersionID{versionID(1), versionID(2), versionID(3)}, at(ticks), lockedName)
	for _, r := range all {
		if err != nil || !errors.Is(r.Err, ErrLocked) {
			t.Fatalf("removal of many: %v, %+v", err, r)
		}
	}
	if err := putLocked(d, 0, ticks, 5, nil); !errors.Is(err, ErrLocked) {
		t.Fatalf("the null version is overwritten: %v", err)
	}
}

// An old null version that is locked is not kept under an id first: the write is refused.
func TestLockedNullVersionIsNotReplaced(t *testing.T) {
	t.Parallel()
	clock := &lockClock{50}
	d := open(t, vfs.NewMem("/d"), "/d", Options{Clock: clock.now, KeptID: keptID})
	defer d.Close()
	if err := errors.Join(putLocked(d, 0, 5, 5, &format.Lock{Compliance: 100}), putLocked(d, 1, 10, 5, nil)); err != nil {
		t.Fatal(err)
	}
	_, keep := d.KeepNull(lockedAt, at(60), lockedName)
	for _, err := range []error{putLocked(d, 0, 60, 7, nil), removeLocked(d, 0, 60, false), removeLocked(d, 0, 60, true), keep} {
		if !errors.Is(err, ErrLocked) {
			t.Fatal(err)
		}
	}
	wantVersions(t, d, 2)
}

func wantVersions(t *testing.T, d *Device, want int) {
	t.Helper()
	page := must[VersionPage](t)(d.ListVersions(lockedAt, versions.Marker{}, 100))
	if len(page.Versions) != want || page.Count != want {
		t.Fatalf("%d versions, count %d, want %d", len(page.Versions), page.Count, want)
	}
	for _, v := range page.Versions {
		o := must[*Object](t)(d.OpenVersion(lockedAt, v.ID))
		o.Close()
	}
}

// A replica that did not know a lock has removed or replaced the version: it comes back,
// whichever replica tells the other first, and the digests are equal then.
func TestReplicaThatMissedALockGetsTheVersionBack(t *testing.T) {
	t.Parallel()
	lock := &format.Lock{Compliance: 100, Governed: at(20)}
	for name, miss := range map[string]func(d *Device) error{
		"version removed": func(d *Device) error { return removeLocked(d, 1, 50, false) },
		"null removed":    func(d *Device) error { return removeLocked(d, 0, 50, false) },
		"null replaced":   func(d *Device) error { return putLocked(d, 0, 50, 7, nil) },
		"removed before the lock": func(d *Device) error {
			return errors.Join(removeLocked(d, 1, 15, false), removeLocked(d, 0, 15, false))
		},
	} {
		for _, size := range []int{5, 3 << 20} {
			for _, others := range []bool{false, true} {
				t.Run(fmt.Sprint(name, size, others), func(t *testing.T) {
					t.Parallel()
					clock := &lockClock{50}
					var all []*Device
					for range 2 {
						d := open(t, vfs.NewMem("/d"), "/d", Options{Clock: clock.now, compactByHand: true})
						defer d.Close()
						if err := putLocked(d, 0, 10, size, nil); err != nil {
							t.Fatal(err)
						}
						if others {
							if err := errors.Join(putLocked(d, 1, 11, size, nil), putLocked(d, 2, 12, 5, nil)); err != nil {
								t.Fatal(err)
							}
						}
						all = append(all, d)
					}
					if !others && name[0] != 'n' {
						for _, d := range all {
							if err := putLocked(d, 1, 11, size, nil); err != nil {
								t.Fatal(err)
							}
						}
					}
					if name[0] != 'n' || others {
						if err := setLock(all[0], 1, lock); err != nil {
							t.Fatal(err)
						}
					}
					if err := errors.Join(setLockOfNull(all[0], lock), miss(all[1])); err != nil {
						t.Fatal(err)
					}
					want := must[string](t)(showsLocked(all[0]))
					for _, first := range []int{1, 0, 1, 0} {
						if err := exchangeAll(rand.New(rand.NewPCG(1, 1)), all[first], all[1-first]); err != nil {
							t.Fatal(err)
						}
					}
					if err := sameReplicas(all, want); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}

// setLockOfNull is setLock for the null version of a name that may have no other.
func setLockOfNull(d *Device, lock *format.Lock) error {
	m, err := d.Head(lockedAt)
	if err != nil || !m.VersionID.IsNull() {
		return setLock(d, 0, lock)
	}
	return d.Post(lockedAt, func(m *format.Metadata) error {
		m.Lock = format.MergeLocks(m.Lock, lock)
		return nil
	})
}

func exchangeAll(rng *rand.Rand, from, to *Device) error {
	for partition := range uint32(1 << modelBits) {
		_, err := send(from, to, partition, bundle.Position{}, func(all []RawRecord) []RawRecord {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			return all
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sameReplicas compares what devices show, and what they would compare themselves.
func sameReplicas(all []*Device, want string) error {
	for i, d := range all {
		got, err := showsLocked(d)
		if err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
		first, err := showsLocked(all[0])
		if err != nil || got != first {
			return fmt.Errorf("device %d shows\n%s, device 0\n%s, %w", i, got, first, err)
		}
		for partition := range uint32(1 << modelBits) {
			digest, _, err := d.Replica(0, partition).Digest(0, 0, format.Timestamp{})
			if err != nil {
				return err
			}
			other, _, err := all[0].Replica(0, partition).Digest(0, 0, format.Timestamp{})
			if err != nil || digest != other {
				return fmt.Errorf("device %d: digests differ in partition %d: %w", i, partition, err)
			}
		}
	}
	if now, err := showsLocked(all[0]); want != "" && (err != nil || now != want) {
		return fmt.Errorf("shows\n%s\nwant\n%s %w", now, want, err)
	}
	return nil
}

// showsLocked is what a device has of the name: its versions with their locks, and which is
// current.
func showsLocked(d *Device) (string, error) {
	var b strings.Builder
	page, err := d.ListVersions(lockedAt, versions.Marker{}, 1000)
	var none *NotFoundError
	if err != nil && !errors.As(err, &none) {
		return "", err
	}
	if page.Incomplete || page.Count != len(page.Versions) {
		return "", fmt.Errorf("%d versions of %d", len(page.Versions), page.Count)
	}
	for _, v := range page.Versions {
		fmt.Fprintf(&b, "%v %v type %d", v.ID, v.Timestamp, min(v.Type, format.TypeDeleteMarker))
		if v.Type != format.TypeDeleteMarker {
			data, m, err := dataOf(d, v.ID)
			if err != nil {
				return "", err
			}
			if !bytes.Equal(data, body(v.Timestamp.Ticks, len(data))) {
				return "", fmt.Errorf("version %v has other bytes", v.ID)
			}
			fmt.Fprintf(&b, " %d bytes %+v", len(data), m.Lock)
		}
		b.WriteString("\n")
	}
	m, err := d.Head(lockedAt)
	if err != nil && !errors.As(err, &none) {
		return "", err
	}
	if err == nil {
		fmt.Fprintf(&b, "current %v %v %+v", m.VersionID, m.Timestamp, m.Lock)
	}
	return b.String(), nil
}

func dataOf(d *Device, id format.VersionID) ([]byte, *format.Metadata, error) {
	o, err := d.OpenVersion(lockedAt, id)
	if err != nil {
		return nil, nil, err
	}
	defer o.Close()
	var b bytes.Buffer
	err = o.WriteRange(&b, 0, o.Metadata().Size)
	return b.Bytes(), o.Metadata(), err
}

// Any sequence of writes, removals, changes of locks and time on three devices, which
// exchange their records in any order, ends with the same versions on all of them. A version
// is there if a part of its lock forbids each removal that any of them accepted.
func TestLocksOnReplicas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &lockedReplicas{clock: &lockClock{100}, versions: map[uint64]*lockedVersion{}}
		for range 3 {
			d, err := Open(vfs.NewMem("/d"), "/d", Options{Clock: s.clock.now, compactByHand: true, Logger: quiet})
			if err != nil {
				rt.Fatal(err)
			}
			defer d.Close()
			s.devices = append(s.devices, d)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			s.clock.ticks += rapid.Uint64Range(1, 30).Draw(rt, "time")
			if err := s.step(rt, rng); err != nil {
				rt.Fatal(err)
			}
		}
		if err := s.settle(rng); err != nil {
			rt.Fatal(err)
		}
		if err := sameReplicas(s.devices, ""); err != nil {
			rt.Fatal(err)
		}
		for id, v := range s.versions {
			_, _, err := dataOf(s.devices[0], versionID(id))
			if v.isKept() && err != nil {
				rt.Fatalf("version %d, removed %+v, under %d locks: %v", id, v.removals, len(v.locks), err)
			}
			if v.isGone() && err == nil {
				rt.Fatalf("version %d is back", id)
			}
		}
	})
}

type lockedReplicas struct {
	clock    *lockClock
	devices  []*Device
	versions map[uint64]*lockedVersion
}

// lockedVersion is what devices have accepted of a version.
type lockedVersion struct {
	locks    []*format.Lock // that a device had of it
	removals []lockedRemoval
}

type lockedRemoval struct {
	ticks  uint64
	bypass bool
}

// isKept tells whether a part of the lock, as the last change of it says, forbids all
// removals: the device that accepted that part refuses them.
func (v *lockedVersion) isKept() bool {
	var all format.Lock
	for _, l := range v.locks {
		all = *format.MergeLocks(&all, l)
	}
	for _, part := range []*format.Lock{
		{Compliance: all.Compliance}, {Governance: all.Governance, Governed: all.Governed}, {Hold: all.Hold, Held: all.Held},
	} {
		if !slices.ContainsFunc(v.removals, func(r lockedRemoval) bool { return !part.Voids(at(r.ticks), r.bypass) }) {
			return true
		}
	}
	return len(v.removals) == 0
}

// isGone tells whether it was removed, and no device had a lock of it.
func (v *lockedVersion) isGone() bool {
	isLocked := slices.ContainsFunc(v.locks, func(l *format.Lock) bool { return l != nil })
	return len(v.removals) > 0 && !isLocked
}

func (s *lockedReplicas) step(rt *rapid.T, rng *rand.Rand) error {
	now := s.clock.ticks
	kind := rapid.SampledFrom([]string{"put", "remove", "remove", "lock", "lock", "exchange", "compact"}).Draw(rt, "kind")
	id := rapid.Uint64Range(1, 3).Draw(rt, "version")
	lock := drawLock(rt, now)
	bypass := kind == "remove" && rapid.Bool().Draw(rt, "bypass")
	from := rng.IntN(3)
	if kind == "exchange" {
		return exchangeAll(rng, s.devices[from], s.devices[(from+1+rng.IntN(2))%3])
	}
	if kind == "put" {
		if s.versions[id] != nil {
			return nil // the id of a version is its time
		}
		s.versions[id] = &lockedVersion{}
		if rapid.Bool().Draw(rt, "without a lock") {
			lock = nil
		}
	}
	v := s.versions[id]
	if v == nil {
		return nil
	}
	for i, d := range s.devices {
		if i != from && rng.IntN(3) == 0 {
			continue // it misses this
		}
		if err := s.apply(d, v, kind, id, lock, bypass); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// apply makes one change on one device, and notes what it accepted.
func (s *lockedReplicas) apply(d *Device, v *lockedVersion, kind string, id uint64, lock *format.Lock, bypass bool) error {
	now := s.clock.ticks
	var none *NotFoundError
	var older *OlderError
	switch kind {
	case "put":
		if err := putLocked(d, id, now, 5, lock); err != nil {
			return err
		}
		v.locks = append(v.locks, lock)
	case "lock":
		err := setLock(d, id, lock)
		if errors.As(err, &none) {
			return nil
		}
		m, err2 := d.HeadVersion(lockedAt, versionID(id))
		if err != nil || err2 != nil {
			return errors.Join(err, err2)
		}
		v.locks = append(v.locks, m.Lock)
	case "remove":
		m, _ := d.HeadVersion(lockedAt, versionID(id))
		err := removeLocked(d, id, now, bypass)
		if isLocked := m != nil && m.Lock.Voids(at(now), bypass); isLocked != errors.Is(err, ErrLocked) {
			return fmt.Errorf("locked %v: %w", isLocked, err)
		}
		if err == nil {
			v.removals = append(v.removals, lockedRemoval{now, bypass})
		} else if !errors.Is(err, ErrLocked) && !errors.As(err, &older) {
			return err
		}
	case "compact":
		return d.Compact()
	}
	return nil
}

// settle exchanges all records until nothing changes.
func (s *lockedReplicas) settle(rng *rand.Rand) error {
	for range 4 {
		for from, d := range s.devices {
			for to := range s.devices {
				if from == to {
					continue
				}
				if err := exchangeAll(rng, d, s.devices[to]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func drawLock(rt *rapid.T, now uint64) *format.Lock {
	later := now + rapid.Uint64Range(0, 200).Draw(rt, "later")
	switch rapid.SampledFrom([]string{"compliance", "governance", "hold", "release"}).Draw(rt, "lock") {
	case "compliance":
		return &format.Lock{Compliance: later, Governed: at(now)}
	case "governance":
		return &format.Lock{Governance: later, Governed: at(now)}
	case "hold":
		return &format.Lock{Hold: true, Held: at(now)}
	}
	return &format.Lock{Held: at(now)}
}
