package updates

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

func segmentFiles(t *testing.T, root string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "async_pending*", "*"+segmentSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func frame(t testing.TB, names ...string) []byte {
	t.Helper()
	var updates []Update
	for _, name := range names {
		updates = append(updates, Update{Target{Account: "a", Container: "c"}, putRow(name)})
	}
	content, err := encodeFrame(updates)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestDecodeSegment(t *testing.T) {
	one, two := frame(t, "1"), frame(t, "2", "3")
	flipped := bytes.Clone(one)
	flipped[len(flipped)-3] ^= 1
	huge := bytes.Clone(one)
	huge[7] = 0xff
	for _, c := range []struct {
		what    string
		content []byte
		rows    int
		damaged int
	}{
		{"nothing", nil, 0, 0},
		{"two frames", append(bytes.Clone(one), two...), 3, 0},
		{"torn header", append(bytes.Clone(one), two[:5]...), 1, 0},
		{"torn payload", append(bytes.Clone(one), two[:len(two)-1]...), 1, 0},
		{"zeros behind", append(bytes.Clone(one), make([]byte, 4096)...), 1, 0},
		{"flipped bit at the end", append(bytes.Clone(two), flipped...), 2, 0},
		{"flipped bit within", append(bytes.Clone(flipped), two...), 2, 1},
		{"huge length within", append(bytes.Clone(huge), two...), 2, 1},
		{"magic in the damage", append([]byte("MLAPMLAP"), two...), 2, 1},
	} {
		updates, damaged, _ := decodeSegment(c.content)
		if len(updates) != c.rows || damaged != c.damaged {
			t.Errorf("%s: %d rows, %d damaged", c.what, len(updates), damaged)
		}
	}
}

func FuzzDecodeSegment(f *testing.F) {
	f.Add(append(frame(f, "1"), frame(f, "2", "3")...))
	f.Fuzz(func(t *testing.T, content []byte) {
		var updates []Update
		proof.Bounded(t, len(content), func() { updates, _, _ = decodeSegment(content) })
		if len(updates) == 0 {
			return
		}
		again, err := encodeFrame(updates)
		if err != nil {
			t.Fatal(err)
		}
		if decoded, _, _ := decodeSegment(again); !reflect.DeepEqual(decoded, updates) {
			t.Fatalf("%v became %v", updates, decoded)
		}
	})
}

func TestConcurrentAppendsShareAFlush(t *testing.T) {
	counting := &countingFS{FS: vfs.OS{}}
	log, err := openSegmentLog(counting, t.TempDir(), folder, new(marks))
	if err != nil {
		t.Fatal(err)
	}
	counting.slow = 2 * time.Millisecond
	var writers sync.WaitGroup
	for i := range 100 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			update := Update{Target{Account: "a", Container: "c"}, putRow(fmt.Sprint(i))}
			s, place, err := log.append([]Update{update})
			if err != nil || s == nil || place < 0 {
				t.Errorf("append: %v", err)
			}
		}()
	}
	writers.Wait()
	if counting.flushes > 50 {
		t.Errorf("100 appends took %d flushes", counting.flushes)
	}
	updates, damaged, err := log.rotate()[0].read(vfs.OS{})
	if err != nil || len(updates) != 100 || damaged != (damage{}) {
		t.Errorf("read %d updates, %+v: %v", len(updates), damaged, err)
	}
}

// countingFS counts flushes, and makes them slow enough for others to arrive meanwhile.
type countingFS struct {
	vfs.FS
	slow    time.Duration
	flushes int // flushes do not overlap
}

type countingFile struct {
	vfs.File
	fs *countingFS
}

func (c *countingFS) Create(name string) (vfs.File, error) {
	file, err := c.FS.Create(name)
	return &countingFile{file, c}, err
}

func (f *countingFile) Datasync() error {
	f.fs.flushes++
	time.Sleep(f.fs.slow)
	return f.File.Datasync()
}

func TestDamageIsKeptAndTheRestDelivered(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "async_pending-2")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	content := frame(t, "1")
	content[20] ^= 1
	damaged, torn := filepath.Join(dir, segmentName(7)), filepath.Join(dir, segmentName(8))
	for path, content := range map[string][]byte{
		damaged: append(content, frame(t, "2")...), torn: append(frame(t, "3"), "MLAP"...),
		filepath.Join(dir, "README"): nil,
	} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server := newContainerServer(t)
	u := newUpdater(t, &places{primaries: []Target{server.target()}})
	p := attach(t, u, root)
	await(t, "both rows", func() bool { return len(server.rows()) == 2 })
	var lost []Lost
	await(t, "both losses", func() bool {
		lost = append(lost, p.Lost()...)
		count := 0
		for _, one := range lost {
			count += len(one.segments)
		}
		return count == 2
	})
	time.Sleep(10 * time.Millisecond) // several rounds of the replay
	if files := segmentFiles(t, root); len(files) != 2 || isEmpty(p) || lost[0].Policy != 2 {
		t.Errorf("%v are left before the lost rows are pending, of policy %d", files, lost[0].Policy)
	}
	for _, one := range lost {
		p.Mended(one)
	}
	await(t, "removal of the torn file", func() bool { return len(segmentFiles(t, root)) == 0 })
	aside := strings.TrimSuffix(damaged, segmentSuffix) + damagedSuffix
	if kept, err := os.ReadFile(aside); err != nil || !bytes.Contains(kept, frame(t, "2")) {
		t.Errorf("the damaged file: %v", err)
	}
	p.Close()
	again := attach(t, u, root)
	if figures := again.Figures(); figures.Damaged != 1 || !isEmpty(again) || len(server.rows()) != 2 {
		t.Errorf("after a restart: %+v, rows %q", figures, server.rows())
	}
	if _, err := again.Append(2, []Update{{server.target(), putRow("4")}}); err != nil {
		t.Fatal(err)
	}
	await(t, "the row of a file with another number", func() bool { return len(server.rows()) == 3 })
}

// The end of a file that this process wrote was flushed: if it is no whole frame, it is damage. So is what the disk
// cannot read; the rest of the file is delivered.
func TestDamageAtTheEndOrInASector(t *testing.T) {
	for _, isSector := range []bool{false, true} {
		server := newContainerServer(t)
		server.answer = func(*http.Request) int { return 503 }
		u := newUpdater(t, &places{primaries: []Target{server.target()}}, func(o *Options) {
			o.RetryFirst, o.Interval = time.Millisecond, time.Millisecond
		})
		root := t.TempDir()
		files := vfs.NewBadSectors(vfs.OS{}, func(_ string, from, to int64) bool { return isSector && from < sector && to > 0 })
		p := &Pending{fs: files, root: root, logger: u.options.Logger, said: &reporter{logger: u.options.Logger},
			logs: map[int]*segmentLog{}}
		long := strings.Repeat("n", 2*sector)
		for _, name := range []string{long, "1"} { // a frame each
			if _, err := p.Append(0, []Update{{server.target(), putRow(name)}}); err != nil {
				t.Fatal(err)
			}
		}
		want := "1"
		if !isSector {
			want = long
			flipLastBit(t, segmentFiles(t, root)[0])
		}
		log := p.log(0)
		s, replay := log.rotate()[0], &replay{updater: u, pending: p}
		deliver := func() {
			if err := replay.deliver(u.ctx, log, s); err != nil {
				t.Fatal(err)
			}
		}
		deliver()
		lost := p.Lost()
		if len(lost) != 1 || len(p.Lost()) != 0 || isEmpty(p) || p.Figures().Damaged != 1 {
			t.Fatalf("a bad sector %v: %d losses", isSector, len(lost))
		}
		server.set(func() { server.answer = func(*http.Request) int { return 202 } })
		await(t, "the rest", func() bool { deliver(); return p.Count() == 0 })
		if deliver(); isEmpty(p) || len(segmentFiles(t, root)) != 1 {
			t.Error("it is removed before the lost row is pending")
		}
		p.Mended(lost[0])
		if deliver(); !isEmpty(p) || len(segmentFiles(t, root)) != 0 || p.Figures().Damaged != 1 {
			t.Errorf("it is left: %+v", p.Figures())
		}
		if got := server.rows(); len(got) != 1 || got[0] != want {
			t.Errorf("a bad sector %v: %d rows", isSector, len(got))
		}
	}
}

func flipLastBit(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-3] ^= 1
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// What waits for one flush may be more than a frame holds.
func TestManyUpdatesTakeSeveralFrames(t *testing.T) {
	l, err := openSegmentLog(vfs.OS{}, t.TempDir(), folder, new(marks))
	if err != nil {
		t.Fatal(err)
	}
	var written []Update
	for i := range 3 {
		written = append(written, Update{Target{Container: fmt.Sprint(i)}, putRow(strings.Repeat("n", framePayloadMax/2))})
	}
	if _, _, err := l.append(written); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.rotate() {
		read, damaged, err := s.read(l.fs)
		if err != nil || damaged != (damage{}) || !reflect.DeepEqual(read, written) || s.count != len(written) {
			t.Errorf("%d of %d updates, %+v, %v", len(read), len(written), damaged, err)
		}
	}
}

// A late answer speaks of a place in the segment as it was written. Where a frame before it was damaged since, that
// must not hide another row.
func TestALateAnswerAndDamageHideNoRow(t *testing.T) {
	for _, damagedFirst := range []bool{false, true} {
		root := t.TempDir()
		server := newContainerServer(t)
		server.answer = func(*http.Request) int { return 503 }
		u := newUpdater(t, &places{}, func(o *Options) { o.RetryFirst, o.Interval = time.Millisecond, time.Millisecond })
		p := &Pending{fs: vfs.OS{}, root: root, logger: u.options.Logger, said: &reporter{logger: u.options.Logger}, logs: map[int]*segmentLog{}}
		var late []SavedID
		for i := range 3 { // a frame each
			ids, err := p.Append(0, []Update{{server.target(), putRow(fmt.Sprint(i))}})
			if err != nil {
				t.Fatal(err)
			}
			late = append(late, ids...)
		}
		content, err := os.ReadFile(segmentFiles(t, root)[0])
		if err != nil {
			t.Fatal(err)
		}
		content[20] ^= 1
		if err := os.WriteFile(segmentFiles(t, root)[0], content, 0o644); err != nil {
			t.Fatal(err)
		}
		log := p.log(0)
		segment := log.rotate()[0]
		replay := &replay{updater: u, pending: p}
		if damagedFirst { // the replay has seen it
			if err := replay.deliver(u.ctx, log, segment); err != nil {
				t.Fatal(err)
			}
		}
		p.Delivered(late[1]) // arrived, but after the writer stopped waiting
		server.set(func() { server.answer = func(*http.Request) int { return 202 } })
		await(t, "delivery of the last row", func() bool {
			if err := replay.deliver(u.ctx, log, segment); err != nil {
				t.Fatal(err)
			}
			return slices.Contains(server.rows(), "2")
		})
	}
}

func TestHalfDeliveredSegmentIsWrittenAnew(t *testing.T) {
	root := t.TempDir()
	good, bad := newContainerServer(t), newContainerServer(t)
	bad.answer = func(*http.Request) int { return 503 }
	u := newUpdater(t, &places{})
	p := attach(t, u, root)
	var updates []Update
	for i := range 10 {
		updates = append(updates, Update{good.target(), putRow(fmt.Sprint(i))})
	}
	updates = append(updates, Update{bad.target(), putRow("last")})
	if _, err := p.Append(0, updates); err != nil {
		t.Fatal(err)
	}
	await(t, "a file with the one row left", func() bool {
		files := segmentFiles(t, root)
		if len(files) != 1 {
			return false
		}
		content, err := os.ReadFile(files[0])
		if err != nil {
			return false
		}
		left, _, _ := decodeSegment(content)
		return len(left) == 1 && left[0].Row.Name == "last"
	})
	if len(good.rows()) != 10 {
		t.Errorf("%d rows arrived", len(good.rows()))
	}
}

func TestALongOutageDoesNotLeaveManyFiles(t *testing.T) {
	server := newContainerServer(t)
	server.answer = func(*http.Request) int { return 503 }
	root := t.TempDir()
	u := newUpdater(t, &places{}, func(o *Options) { o.RetryFirst, o.Interval = time.Millisecond, time.Hour })
	p := attach(t, u, root)
	tried := func() int { server.mu.Lock(); defer server.mu.Unlock(); return len(server.headers) }
	for i := range 20 {
		deliver(t, u, p, server.target(), putRow(fmt.Sprint(i)))
		before := tried()
		if i < 5 { // the pauses double
			await(t, "an attempt of the replay", func() bool { return tried() > before })
		}
	}
	if files := segmentFiles(t, root); len(files) > 2 {
		t.Errorf("20 updates lie in %d files", len(files))
	}
	server.set(func() { server.answer = func(*http.Request) int { return 202 } })
	await(t, "delivery of all", func() bool { return p.Count() == 0 && len(segmentFiles(t, root)) == 0 })
	if got := len(server.rows()); got != 20 {
		t.Errorf("%d rows arrived", got)
	}
}

func TestDeliveredRowsAreNotSentAgain(t *testing.T) {
	good, bad := newContainerServer(t), newContainerServer(t)
	bad.answer = func(*http.Request) int { return 503 }
	u := newUpdater(t, &places{})
	p := attach(t, u, t.TempDir())
	updates := []Update{{good.target(), putRow("1")}, {good.target(), putRow("2")}}
	for i := range 5 { // more than half stays, so that the file is not written anew
		updates = append(updates, Update{bad.target(), putRow(fmt.Sprint("bad", i))})
	}
	if _, err := p.Append(0, updates); err != nil {
		t.Fatal(err)
	}
	await(t, "several attempts", func() bool { bad.mu.Lock(); defer bad.mu.Unlock(); return len(bad.headers) > 3 })
	if got := good.rows(); len(got) != 2 || p.Count() != 5 {
		t.Errorf("arrived: %v; %d are pending", got, p.Count())
	}
}

func TestFolderNames(t *testing.T) {
	for name, want := range map[string]int{
		"async_pending": 0, "async_pending-1": 1, "async_pending-12": 12, "async_pending-0": -1, "async_pending-01": -1,
		"async_pending1": -1, "async_pending-x": -1, "objects": -1, "async_pending-": -1,
	} {
		got, ok := parseFolder(name)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
}

// isEmpty tells whether all updates of writes that are over have been delivered.
func isEmpty(p *Pending) bool {
	isOver, _ := p.IsOver(p.Mark())
	return isOver
}
