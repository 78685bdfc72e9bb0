package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// readable maps the id of each version of a name that is listed to whether its
// data can be read.
func readable(t testing.TB, b *openedLog, n int) map[format.VersionID]bool {
	t.Helper()
	record, buffer, damage := b.ReadHead(name(n))
	defer buffer.Free()
	c, err := b.Chain(name(n), record, damage)
	check(t, err)
	all := make(map[format.VersionID]bool)
	err = c.Each(func(v *format.Version) error {
		found, err := c.Find(v.ID)
		check(t, err)
		r, buffer, err := b.ReadVersion(name(n), found)
		all[v.ID] = err == nil && r.Live() && r.CheckData() == nil
		buffer.Free()
		return nil
	})
	if err != nil && !errors.Is(err, format.ErrQuarantined) {
		t.Fatal(err)
	}
	return all
}

// manyVersions has a plain object 1 that later got 20 versions; it returns where
// each record lies.
func manyVersions(t *testing.T) (fs *vfs.Mem, b *openedLog, places []int64) {
	fs = vfs.NewMem("/d")
	b = openLog(t, fs)
	b.append(t, put(t, 1, 1))
	places = append(places, format.SegmentHeaderSize)
	for i := range 20 {
		places = append(places, int64(len(contents(t, fs, logSegment))))
		b.append(t, version(t, b, 1, uint64(i+2)))
	}
	b.append(t, put(t, 2, 1000))
	return fs, b, places
}

// A version whose data or metadata are damaged hides none of the others once the
// partition is repaired, and is itself not forgotten: it may be written again.
func TestRepairKeepsOtherVersions(t *testing.T) {
	template, b, places := manyVersions(t)
	all := readable(t, b, 1)
	if len(all) != 21 {
		t.Fatal(len(all))
	}
	for i := range 21 {
		head, err := readAtLSN(b, uint64(i+1))
		check(t, err)
		parts := head.Layout()
		for part, at := range map[string]uint64{"data": parts.Data, "metadata": parts.Metadata, "block": format.HeaderSize} {
			fs := template.KillClone()
			alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, places[i]+int64(at)) })
			plan := repaired(t, fs)
			again := openLog(t, fs)
			after := readable(t, again, 1)
			want := maps.Clone(all)
			want[head.VersionID] = false
			if !maps.Equal(after, want) || len(plan.Returns) > 0 {
				t.Fatalf("version %d, %s damaged: %v, %+v", i, part, after, plan.Returns)
			}
			m := format.Metadata{Name: "/a/c/v", Size: 3, Timestamp: head.Timestamp, VersionID: head.VersionID, Versioned: true}
			again.append(t, added(t, again, 1, &m))
			again = openLog(t, fs)
			if after := readable(t, again, 1); !maps.Equal(after, all) {
				t.Fatalf("version %d, %s damaged, written again: %v", i, part, after)
			}
			record, buffer, err := again.ReadHead(name(1))
			check(t, err)
			if newest, ok := record.Newest(); !ok || newest.Timestamp.Ticks != 21 || record.Head.Versions != 21 {
				t.Errorf("version %d, %s damaged, written again: %+v of %d", i, part, newest, record.Head.Versions)
			}
			buffer.Free()
		}
	}
}

// readAtLSN reads the header of a record of object 1.
func readAtLSN(b *openedLog, lsn uint64) (format.Header, error) {
	r, buffer, err := b.ReadVersionHead(name(1), format.Reference{LSN: lsn})
	if err != nil {
		return format.Header{}, err
	}
	defer buffer.Free()
	return r.Head, nil
}

// The version in a large file that is lost hides no other one either.
func TestRepairKeepsVersionsBesideALostLargeFile(t *testing.T) {
	for lost := range 12 {
		fs := vfs.NewMem("/d")
		b := openLog(t, fs)
		for i := range 12 {
			id := uint64(0x11 + i)
			storeLarge(t, b, 1, id, id, func(m *format.Metadata) *versions.Addition {
				m.VersionID, m.Versioned = format.VersionID{byte(id)}, true
				a, err := b.chain(t, 1).Add(m.VersionID, m.Timestamp)
				check(t, err)
				return &a
			})
		}
		b.append(t, put(t, 3, 1))
		b.RemoveLarge(uint64(0x11 + lost))
		repaired(t, fs)
		after := readable(t, openLog(t, fs), 1)
		for i := range 12 {
			if after[format.VersionID{byte(0x11 + i)}] != (i != lost) {
				t.Fatalf("without large file %d: %v", lost, after)
			}
		}
	}
}

// A version that was removed does not come back because the metadata of its
// removal are damaged, wherever in the chain that lies.
func TestRepairKeepsRemovals(t *testing.T) {
	for at := 3; at < 20; at++ {
		fs := vfs.NewMem("/d")
		b := openLog(t, fs)
		var offset, start, before int64
		for i := range 20 {
			if i > 0 {
				start, before = int64(len(contents(t, fs, logSegment))), start
			}
			if i == at {
				m := format.Metadata{Name: "/a/c/v", Timestamp: format.Timestamp{Ticks: 100}, VersionID: format.VersionID{2, 1}, Versioned: true}
				a, err := b.chain(t, 1).Remove(m.VersionID, m.Timestamp)
				check(t, err)
				d := bundle.NewDraft(0)
				d.Continue(&a)
				check(t, d.SealTombstone(name(1), &m))
				b.append(t, d)
				head, err := readAtLSN(b, uint64(i+1))
				check(t, err)
				offset = start + format.HeaderSize + int64(head.BlockLength) + 2
			}
			b.append(t, version(t, b, 1, uint64(i+1)))
		}
		b.append(t, put(t, 2, 1000))
		want := readable(t, b, 1)
		if len(want) != 19 {
			t.Fatal(len(want))
		}
		for _, last := range []bool{false, true} {
			state := fs.KillClone()
			alter(t, state, logSegment, func(f vfs.File) { flip(t, f, offset) })
			if last { // the record before it is damaged as well
				alter(t, state, logSegment, func(f vfs.File) { flip(t, f, before+format.HeaderSize+5) })
			}
			plan := repaired(t, state)
			if len(plan.Returns) > 0 {
				t.Errorf("%+v", plan.Returns)
			}
			after := readable(t, openLog(t, state), 1)
			if _, back := after[format.VersionID{2, 1}]; back || !last && !maps.Equal(after, want) {
				t.Fatalf("removed by record %d: %v", at+1, slices.Sorted(maps.Values(text(after))))
			}
		}
	}
}

func text(all map[format.VersionID]bool) map[format.VersionID]string {
	texts := make(map[format.VersionID]string)
	for id, ok := range all {
		texts[id] = fmt.Sprintf("%x %v", bytes.TrimRight(id[:], "\x00"), ok)
	}
	return texts
}
