package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

const (
	logDirectory = "/d/bundles/7"
	logSegment   = logDirectory + "/00000001-0000.bundle"
	logAside     = "/d/quarantined/objects/7-now"
)

var (
	logID     = bundle.ID{Partition: 7}
	logConfig = bundle.Config{SegmentBytes: 1 << 20, CheckpointBytes: 1 << 20}
	tended    = bundle.Config{SegmentBytes: 16 << 10, CheckpointBytes: 2500}
)

var check = proof.Check

// openedLog is an open bundle with its writer.
type openedLog struct {
	*bundle.Bundle
	writer *bundle.Writer
}

func openWith(t testing.TB, fs vfs.FS, config bundle.Config) *openedLog {
	t.Helper()
	b, err := bundle.Open(bundle.NewFiles(fs, "/d", 4), logID, config)
	check(t, err)
	return &openedLog{b, b.TakeWriter()}
}

func openLog(t testing.TB, fs vfs.FS) *openedLog {
	t.Helper()
	return openWith(t, fs, logConfig)
}

// name is the hash of a numbered object.
func name(n int) (h format.Hash) {
	h[0] = byte(n)
	binary.BigEndian.PutUint64(h[8:], uint64(n)*0x9e3779b97f4a7c15)
	return h
}

// put makes a PUT record of object n with 200 bytes.
func put(t testing.TB, n int, ticks uint64) *bundle.Draft {
	t.Helper()
	d := bundle.NewDraft(200)
	d.Write(make([]byte, 200))
	m := format.Metadata{Name: fmt.Sprint("/a/c/", n), Size: 200, Timestamp: format.Timestamp{Ticks: ticks}}
	check(t, d.SealPut(name(n), &m, nil))
	return d
}

func tombstone(t testing.TB, n int, ticks uint64) *bundle.Draft {
	t.Helper()
	d := bundle.NewDraft(0)
	m := format.Metadata{Name: fmt.Sprint("/a/c/", n), Timestamp: format.Timestamp{Ticks: ticks}}
	check(t, d.SealTombstone(name(n), &m))
	return d
}

// append writes and publishes a batch.
func (b *openedLog) append(t testing.TB, drafts ...*bundle.Draft) {
	t.Helper()
	for _, d := range drafts {
		hash, _ := d.Replaced()
		old, buffer, _ := b.ReadHead(hash)
		d.Replaces(old)
		buffer.Free()
	}
	a, err := b.writer.Append(drafts)
	check(t, err)
	check(t, a.Datasync())
	a.Publish()
}

// tend does what the caretaker of a device does.
func (b *openedLog) tend(t testing.TB) {
	t.Helper()
	check(t, b.Seal())
	d, err := b.Checkpoint()
	check(t, err)
	if d != nil {
		b.append(t, d)
	}
}

// compact compacts until nothing is worth it, and counts the segments that are gone.
func (b *openedLog) compact(t testing.TB) (replaced int) {
	t.Helper()
	for {
		done, err := b.Compact(&bundle.Compaction{
			Lock: func(format.Hash) {}, Unlock: func(format.Hash) {}, Pace: func(int) error { return nil },
			Settle: func() error { return nil }, Share: 0.5, Room: 1 << 40,
		})
		check(t, err)
		if done.Segments == 0 {
			return replaced
		}
		replaced += done.Segments
	}
}

// proven is the watermark of the newest record, where each batch is one record.
func (b *openedLog) proven() uint64 { return b.Position().LSN - 1 }

// tendedLog is a log of full segments with footers and a last one with checkpoints.
func tendedLog(t testing.TB) (*vfs.Mem, *openedLog) {
	t.Helper()
	fs := vfs.NewMem("/d")
	b := openWith(t, fs, tended)
	for i := range 250 {
		b.append(t, put(t, i*7%90, uint64(i+1)))
		b.tend(t)
	}
	return fs, b
}

// find reads the header of a name's newest record; false if there is none.
func find(b *openedLog, hash format.Hash) (*bundle.Record, bool, error) {
	record, buffer, err := b.ReadHead(hash)
	buffer.Free()
	if record == nil {
		return &bundle.Record{}, false, err
	}
	return record, true, err
}

// threeBatches is a log of the records 1; 2 and 3; 4 and 5, where the end of the last
// batch is proven by nothing. It returns the offset of each record.
func threeBatches(t testing.TB) (*vfs.Mem, map[uint64]int64) {
	t.Helper()
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	b.append(t, put(t, 1, 1))
	b.append(t, put(t, 2, 1), put(t, 3, 1))
	b.append(t, put(t, 4, 1), put(t, 5, 1))
	return fs, offsets(t, fs, logSegment)
}

// offsets tells where each record of a good segment file lies, by LSN.
func offsets(t testing.TB, fs vfs.FS, path string) map[uint64]int64 {
	t.Helper()
	file, err := fs.Open(path)
	check(t, err)
	defer file.Close()
	f, _, err := segment.ReadFile(file, filepath.Base(path))
	check(t, err)
	w := f.Walk(segment.NewWindow(file, f.End(), segment.WindowSize), segment.NoLimit)
	defer w.Close()
	all := make(map[uint64]int64)
	for {
		h, err := w.Read()
		if err == io.EOF {
			return all
		}
		check(t, err)
		all[h.LSN] = w.At()
	}
}

// segmentPaths lists the segments of the log.
func segmentPaths(t testing.TB, fs vfs.FS) (paths []string) {
	t.Helper()
	entries, err := fs.ReadDir(logDirectory)
	check(t, err)
	for _, entry := range entries {
		if _, _, ok := format.ParseSegmentName(entry.Name()); ok {
			paths = append(paths, filepath.Join(logDirectory, entry.Name()))
		}
	}
	return paths
}

func largePath(id uint64) string {
	return filepath.Join(logDirectory, "large", fmt.Sprintf("%016x.data", id))
}

// contents are the bytes of a file.
func contents(t testing.TB, fs vfs.FS, path string) string {
	t.Helper()
	f, err := fs.Open(path)
	check(t, err)
	defer f.Close()
	size, err := f.Size()
	check(t, err)
	p := make([]byte, size)
	_, err = f.ReadAt(p, 0)
	check(t, err)
	return string(p)
}

// plant makes a file with durable content.
func plant(t testing.TB, fs vfs.FS, path string, content []byte) {
	t.Helper()
	f, err := fs.Create(path)
	check(t, err)
	check(t, f.Writev([][]byte{content}, 0))
	check(t, f.Datasync())
	check(t, f.Close())
}

// alter changes a file in place.
func alter(t testing.TB, fs vfs.FS, path string, change func(f vfs.File)) {
	t.Helper()
	f, err := fs.Open(path)
	check(t, err)
	change(f)
	check(t, f.Datasync())
	check(t, f.Close())
}

func flip(t testing.TB, f vfs.File, offset int64) {
	t.Helper()
	p := make([]byte, 1)
	_, err := f.ReadAt(p, offset)
	check(t, err)
	p[0] ^= 0xff
	check(t, f.Writev([][]byte{p}, offset))
}

// chain is that of the versions of object n.
func (b *openedLog) chain(t testing.TB, n int) *versions.Chain {
	t.Helper()
	record, buffer, err := b.ReadHead(name(n))
	check(t, err)
	defer buffer.Free()
	c, err := b.Chain(name(n), record, nil)
	check(t, err)
	return c
}

// version makes a PUT that adds a version to object n.
func version(t testing.TB, b *openedLog, n int, ticks uint64) *bundle.Draft {
	t.Helper()
	m := format.Metadata{Name: "/a/c/v", Size: 3, Timestamp: format.Timestamp{Ticks: ticks}, VersionID: format.VersionID{byte(ticks), 1}, Versioned: true}
	return added(t, b, n, &m)
}

// added makes the PUT of a version with metadata.
func added(t testing.TB, b *openedLog, n int, m *format.Metadata) *bundle.Draft {
	t.Helper()
	a, err := b.chain(t, n).Add(m.VersionID, m.Timestamp)
	check(t, err)
	d := bundle.NewDraft(3)
	d.Write([]byte("abc"))
	d.Continue(&a)
	check(t, d.SealPut(name(n), m, nil))
	return d
}

// storeLarge stores object n in the large file id, or, if that exists, changes
// its metadata as a POST does.
func storeLarge(t testing.TB, b *openedLog, n int, ticks, id uint64, chain func(*format.Metadata) *versions.Addition) {
	t.Helper()
	content := make([]byte, 3*format.ChunkSize/2)
	for i := range content {
		content[i] = byte(id)
	}
	m := format.Metadata{Name: fmt.Sprint("/a/c/", n), Size: int64(len(content)), Timestamp: format.Timestamp{Ticks: id}, MetaTimestamp: format.Timestamp{Ticks: ticks}}
	f, err := b.OpenLarge(id)
	if errors.Is(err, fs.ErrNotExist) {
		f, _, err = b.CreateLarge(id)
		check(t, err)
		check(t, f.Writev([][]byte{content}, 0))
		check(t, f.Datasync())
		check(t, b.LinkLarge(f, id))
	}
	check(t, err)
	check(t, bundle.WriteCopy(f, &m))
	check(t, f.Close())
	d := bundle.NewDraft(0)
	if chain != nil {
		d.Continue(chain(&m))
	}
	check(t, d.SealSpill(name(n), &m, id, format.AppendChunkTable(nil, content)))
	b.append(t, d)
}

func verified(t testing.TB, fs vfs.FS, id bundle.ID) *Verdict {
	t.Helper()
	files := bundle.NewFiles(fs, "/d", 4)
	v, err := Verify(files, id, "")
	check(t, err)
	check(t, files.Close())
	return v
}

func wantClean(t testing.TB, fs vfs.FS) *Verdict {
	t.Helper()
	v := verified(t, fs, logID)
	for _, d := range v.Damages {
		t.Errorf("damage: %s", &d)
	}
	return v
}

func repaired(t testing.TB, fs vfs.FS) *Repair {
	t.Helper()
	files := bundle.NewFiles(fs, "/d", 4)
	plan, err := PlanRepair(files, logID)
	check(t, err)
	check(t, plan.Run(logAside))
	check(t, files.Close())
	wantClean(t, fs)
	return plan
}
