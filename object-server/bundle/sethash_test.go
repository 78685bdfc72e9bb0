package bundle

import (
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/vfs"
)

// whole is the digest of all of a bundle.
func whole(t testing.TB, b *Bundle) sethash.Digest {
	t.Helper()
	found, at, err := b.Slices(0, 0, 0, format.Timestamp{})
	check(t, err)
	if at != b.Position() || len(found) > 1 {
		t.Fatal(at, found)
	}
	if len(found) == 0 {
		return sethash.Digest{}
	}
	return found[0].Digest
}

// A write over a record whose header has rotted cannot tell what it takes out of the
// set. The digest is right all the same, and so it is after a restart.
func TestDigestAfterARottenHeader(t *testing.T) {
	fs, b := tendedLog(t)
	before := whole(t, b)
	r, ok, err := find(b, name(3))
	check(t, err)
	if s := b.segments.withLSN(r.LSN()); !ok || !s.sealed {
		t.Fatal("the record is not in a segment with a footer")
	}
	rotHeader(t, fs, b, name(3))
	appendBatch(t, b, put(t, 3, 5000))
	if !b.agreement.unsure {
		t.Fatal("the rotten record was no matter")
	}
	after := whole(t, b)
	if after == before || after.Versions.Count != before.Versions.Count || b.agreement.unsure {
		t.Fatalf("%+v became %+v", before, after)
	}
	if rebuilt := whole(t, reopened(t, fs)); rebuilt != after {
		t.Fatalf("%+v, rebuilt %+v", after, rebuilt)
	}
	appendBatch(t, b, put(t, 4, 6000)) // goes on from there
	if live, rebuilt := whole(t, b), whole(t, reopened(t, fs)); live != rebuilt || live == after {
		t.Fatalf("%+v, rebuilt %+v", live, rebuilt)
	}
}

// The digest of all names is known however shallow the table has become. Finer slices make it anew.
func TestAShallowTable(t *testing.T) {
	b := openLog(t, vfs.NewMem("/d"))
	for n := 0; n < 5000; n += 10 {
		var drafts []*Draft
		for i := range 10 {
			drafts = append(drafts, put(t, n+i, 1))
		}
		appendBatch(t, b, drafts...)
	}
	table := b.agreement.table
	if all := whole(t, b); !table.IsShallow() || b.agreement.table != table || all.Versions.Count != 5000 {
		t.Fatal(table.IsShallow(), b.agreement.table.Depth(), all)
	}
	_, _, err := b.Slices(0, 0, 4, format.Timestamp{})
	check(t, err)
	if b.agreement.table.IsShallow() {
		t.Error("the table is as shallow as it was")
	}
}

// Slices that are finer than the table come from the runs and are the same.
func TestSlicesBelowTheTable(t *testing.T) {
	_, b := tendedLog(t)
	fine, _, err := b.Slices(0, 0, sethash.LevelMax, format.Timestamp{})
	check(t, err)
	if b.agreement.table.Depth() == sethash.LevelMax || len(fine) < 80 {
		t.Fatal(b.agreement.table.Depth(), len(fine))
	}
	var sum sethash.Digest
	for _, s := range fine {
		sum.Add(s.Digest)
	}
	if want := whole(t, b); sum != want {
		t.Fatalf("%+v together, want %+v", sum, want)
	}
	elements, at, err := b.Elements(0, 0)
	if err != nil || at != b.Position() || len(elements) != 90 {
		t.Fatal(len(elements), at, err)
	}
	if _, _, err := b.Slices(3, 0, 2, format.Timestamp{}); err == nil {
		t.Error("a slice consists of larger ones")
	}
}

// What was written over a record that cannot be read counts in the digest, and that record
// does not. Such a digest is told to be partial: another name may have lost its newest record.
func TestDigestBesideADamagedRecord(t *testing.T) {
	_, sound := tendedLog(t)
	appendBatch(t, sound, put(t, 3, 6000))
	fs, b := tendedLog(t)
	appendBatch(t, b, put(t, 3, 5000)) // behind the last checkpoint
	rotHeader(t, fs, b, name(3))
	if b.IsPartial() {
		t.Error("partial before anything was overwritten")
	}
	appendBatch(t, b, put(t, 3, 6000))
	for range 2 {
		if got, want := whole(t, b), whole(t, sound); got != want || !b.IsPartial() {
			t.Fatalf("%+v, want %+v; partial: %v", got, want, b.IsPartial())
		}
	}
}

// rotHeader flips a bit in the header of a name's newest record.
func rotHeader(t testing.TB, fs *vfs.Mem, b *Bundle, hash format.Hash) {
	t.Helper()
	r, ok, err := find(b, hash)
	check(t, err)
	if !ok {
		t.Fatal("nothing to rot")
	}
	file, err := fs.Open(b.files.path(b.segments.table[r.slot.Segment()].key(b.id)))
	check(t, err)
	defer file.Close()
	flip(t, file, int64(r.slot.Unit())*format.UnitSize+60)
}

// The run of a segment as it was at one moment leaves out what was appended later,
// though it has a footer by now.
func TestRunOfASegmentSealedSince(t *testing.T) {
	_, b := tendedLog(t)
	appendBatch(t, b, put(t, 3, 5000))
	b.mu.RLock()
	extents, at := b.extents()
	b.mu.RUnlock()
	appendBatch(t, b, put(t, 4, 6000))
	b.close()
	check(t, b.Seal())
	entries, _, err := b.entriesIn(extents, 0, 0)
	check(t, err)
	for _, e := range entries {
		if e.LSN > at.LSN {
			t.Errorf("record %d is later than %d", e.LSN, at.LSN)
		}
	}
}
