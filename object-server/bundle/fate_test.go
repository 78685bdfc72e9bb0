package bundle

import (
	"fmt"
	"maps"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// chained is a name with versions in a real log.
type chained struct {
	testing.TB
	bundle *Bundle
	hash   format.Hash
}

func (c *chained) chain() (*versions.Chain, *Record) {
	c.Helper()
	head, buffer, err := c.bundle.ReadHead(c.hash)
	defer buffer.Free()
	check(c, err)
	chain, err := c.bundle.Chain(c.hash, head, nil)
	check(c, err)
	return chain, head
}

// write appends a record to the chain: a version of some size, or the removal of
// one if that is 0.
func (c *chained) write(n int, ticks uint64, size int) {
	c.Helper()
	chain, head := c.chain()
	var id format.VersionID
	if id[0] = byte(n); n == 0 {
		id = format.VersionID{}
	}
	t := format.Timestamp{Ticks: ticks}
	change := chain.Add
	if size == 0 {
		change = chain.Remove
	}
	a, err := change(id, t)
	check(c, err)
	if v := a.Replaced(); v.LSN != 0 {
		old, buffer, err := c.bundle.ReadVersionHead(c.hash, v)
		check(c, err)
		a.Frees(&old.Record)
		buffer.Free()
	}
	d, m := NewDraft(size), format.Metadata{Name: "/a/c/1", Size: int64(size), Timestamp: t, VersionID: id}
	defer d.Free()
	d.Continue(&a)
	d.Write(make([]byte, size))
	if size > 0 {
		check(c, d.SealPut(c.hash, &m, nil))
	} else {
		check(c, d.SealTombstone(c.hash, &m))
	}
	d.Replaces(head)
	appended, err := (&Writer{c.bundle}).Append([]*Draft{d})
	check(c, err)
	check(c, appended.Datasync())
	appended.Publish()
	tend(c, c.bundle)
}

// listed reads every version that the chain lists.
func (c *chained) listed() map[string]bool {
	c.Helper()
	chain, _ := c.chain()
	page, err := chain.Page(versions.Marker{}, 1000)
	check(c, err)
	if len(page) != chain.Len() || chain.Incomplete() {
		c.Fatalf("%d versions listed of %d, incomplete %v", len(page), chain.Len(), chain.Incomplete())
	}
	all := map[string]bool{}
	for _, v := range page {
		r, buffer, err := c.bundle.ReadVersion(c.hash, format.Reference{LSN: v.LSN, Timestamp: v.Timestamp, ID: v.ID})
		check(c, err)
		check(c, r.CheckData())
		if r.Type() != format.TypePut || r.Size() != int64(v.Size) || r.VersionID() != v.ID {
			c.Fatalf("%+v is %+v", v, r.Head)
		}
		all[fmt.Sprintf("%x %v %d after %v", v.ID, v.Timestamp, v.Size, v.Successor)] = true
		buffer.Free()
	}
	return all
}

// eagerly compacts also what is mostly blocks of versions, which stay.
func eagerly() *Compaction {
	c := calm()
	c.Share = 0.2
	return c
}

// Compaction takes the data of versions that were removed or replaced, and the
// records from before the name had versions. All that is left reads and lists as
// before, also for a new process; and so on.
func TestCompactVersions(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := reopened(t, fs)
	appendBatch(t, b, put(t, 1, 1))
	appendBatch(t, b, put(t, 1, 2)) // the null version
	c := &chained{t, b, name(1)}
	for i := 1; i <= 150; i++ {
		c.write(i, uint64(100*i), 700)
		if i > 20 {
			c.write(i-20, uint64(100*i+1), 0)
		}
		if i%30 == 0 {
			c.write(0, uint64(100*i+2), 500)
		}
	}
	want := c.listed()
	_, used := segmentFiles(t, fs)
	dead := int64(130+5) * 700
	if live, all := b.Bytes(); all-live < dead/2 {
		t.Fatalf("%d of %d bytes live after removals", live, all)
	}
	done := compactAll(t, b, eagerly())
	if done.Versions < 100 {
		t.Fatalf("%+v", done)
	}
	for range 2 {
		if got := c.listed(); !maps.Equal(got, want) {
			t.Fatalf("%v became %v", want, got)
		}
		if _, left := segmentFiles(t, fs); left > used-dead/2 {
			t.Fatalf("%d bytes of %d left", left, used)
		}
		c.bundle = reopened(t, fs)
		if damaged := c.bundle.Report().Damaged; len(damaged) > 0 {
			t.Fatal(damaged)
		}
		wantClean(t, fs)
		compactAll(t, c.bundle, eagerly())
	}
	c.write(151, 20000, 700)
	c.write(140, 20001, 0)
	if got := c.listed(); len(got) != len(want) {
		t.Fatalf("%d versions after %d", len(got), len(want))
	}
}

// What removals made dead before a restart is found afterwards as well.
func TestVersionsDeadBeforeRestart(t *testing.T) {
	fs := vfs.NewMem("/d")
	c := &chained{t, reopened(t, fs), name(1)}
	for i := 1; i <= 100; i++ {
		c.write(i, uint64(100*i), 700)
	}
	for i := 1; i <= 90; i++ {
		c.write(i, uint64(100*i+1), 0)
	}
	want := c.listed()
	c.bundle = reopened(t, fs)
	if done := compactAll(t, c.bundle, eagerly()); done.Versions < 60 {
		t.Fatalf("%+v", done)
	}
	if got := c.listed(); !maps.Equal(got, want) {
		t.Fatalf("%v became %v", want, got)
	}
	c.bundle = reopened(t, fs)
	if done := compactAll(t, c.bundle, eagerly()); done.Versions > 30 {
		t.Fatalf("again: %+v", done)
	}
}

// The head of a chain may be damaged after a compaction: what it had made dead is
// live again, and there.
func TestCompactVersionsBeforeDamage(t *testing.T) {
	fs := vfs.NewMem("/d")
	c := &chained{t, reopened(t, fs), name(1)}
	for i := 1; i <= 60; i++ {
		c.write(i, uint64(100*i), 700)
	}
	for i := 40; i > 0; i-- { // the last removal is of a record that was copied
		c.write(i, uint64(100*i+1), 0)
	}
	if done := compactAll(t, c.bundle, eagerly()); done.Versions == 0 || c.bundle.segments.inOrder()[0].generation == 0 {
		t.Fatalf("%+v", done)
	}
	_, head := c.chain()
	before, err := versions.At(nameReader{c.bundle, c.hash}, head.Head.Previous)
	check(t, err)
	v, err := before.Find(head.VersionID())
	check(t, err)
	r, buffer, err := c.bundle.ReadVersion(c.hash, v)
	check(t, err)
	defer buffer.Free()
	if !r.Live() {
		t.Fatalf("%+v", r.Head)
	}
}
