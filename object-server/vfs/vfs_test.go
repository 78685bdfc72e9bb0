package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Both implementations keep the contract of FS.
func TestConformance(t *testing.T) {
	t.Run("os", func(t *testing.T) { conformance(t, OS{}, t.TempDir()) })
	t.Run("mem", func(t *testing.T) { conformance(t, NewMem("/d"), "/d") })
	t.Run("mem that lacks what it can", func(t *testing.T) {
		mem := NewMem("/d")
		mem.Lack(FeatureTemp | FeatureClone | FeatureXattr)
		conformance(t, mem, "/d")
	})
	t.Run("faults", func(t *testing.T) {
		none := func(string, string) error { return nil }
		conformance(t, NewFaults(NewMem("/d"), none), "/d")
	})
}

func conformance(t *testing.T, files FS, root string) {
	dir := filepath.Join(root, "sub")
	expect(t, files.Mkdir(dir), nil)
	expect(t, files.Mkdir(dir), fs.ErrExist)
	expect(t, files.Mkdir(filepath.Join(root, "no", "parent")), fs.ErrNotExist)
	name := filepath.Join(dir, "file")
	_, err := files.Open(name)
	expect(t, err, fs.ErrNotExist)
	f, err := files.Create(name)
	expect(t, err, nil)
	_, err = files.Create(name)
	expect(t, err, fs.ErrExist)
	readAndWrite(t, f)
	writeDirect(t, f)
	expect(t, f.Close(), nil)
	linkTemp(t, files, dir)
	clone(t, files, dir)

	entries, err := files.ReadDir(dir)
	expect(t, err, nil)
	if len(entries) != 2 || entries[0].Name() != "file" || entries[0].IsDir() || entries[1].Name() != "linked" {
		t.Fatal(entries)
	}
	expect(t, files.SyncDir(dir), nil)
	expect(t, files.SyncDir(filepath.Join(root, "none")), fs.ErrNotExist)
	expect(t, files.Remove(name), nil)
	expect(t, files.Remove(name), fs.ErrNotExist)
	lockTwice(t, files, root)
}

func readAndWrite(t *testing.T, f File) {
	expect(t, f.Writev([][]byte{[]byte("ab"), {}, []byte("cd")}, 2), nil)
	expect(t, f.Writev(nil, 0), nil)
	expect(t, f.Writev([][]byte{{}, {}}, 0), nil)
	many := make([][]byte, 3000) // more than one pwritev takes
	for i := range many {
		many[i] = []byte{byte(i)}
	}
	expect(t, f.Writev(many, 6), nil)
	p := make([]byte, 3006)
	n, err := f.ReadAt(p, 0)
	expect(t, err, nil)
	if n != len(p) || !bytes.Equal(p[:6], []byte("\x00\x00abcd")) || p[3005] != byte(2999%256) {
		t.Fatal(n, p[:6])
	}
	n, err = f.ReadAt(p, 3000)
	expect(t, err, io.EOF)
	if n != 6 {
		t.Fatal(n)
	}
	expect(t, f.Datasync(), nil)
	expect(t, f.Allocate(10_000), nil)
	expect(t, f.Truncate(3), nil)
	if size, err := f.Size(); size != 3 || err != nil {
		t.Fatal(size, err)
	}
}

// readDirect reads p, which lies behind the first block and ends the file once it is cut.
func readDirect(t *testing.T, f File, p []byte) {
	block := int64(f.DirectBlock())
	memory := Aligned(make([]byte, 4096+8*block))[:4*block]
	expect(t, f.Truncate(3*block-100), nil)
	if n, err := f.ReadDirect(memory, block); n != len(p)-100 || !errors.Is(err, io.EOF) || !bytes.Equal(memory[:n], p[:n]) {
		t.Fatal("a direct read to the end of the file", n, err)
	}
	if n, err := f.ReadDirect(memory[:block], block); int64(n) != block || err != nil || !bytes.Equal(memory[:n], p[:n]) {
		t.Fatal("a direct read of a block", n, err)
	}
	if n, err := f.ReadDirect(memory, 4*block); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatal("a direct read behind the end", n, err)
	}
	if _, err := f.ReadDirect(memory, block+1); err == nil || errors.Is(err, io.EOF) {
		t.Fatal("a read beside the blocks is done", err)
	}
}

// writeDirect mixes direct and buffered writes of the same block.
func writeDirect(t *testing.T, f File) {
	block := f.DirectBlock()
	if block == 0 {
		t.Log("no direct writes here")
		return
	}
	memory := make([]byte, 4096+2*block)
	p := memory[(4096-uintptr(unsafe.Pointer(unsafe.SliceData(memory)))%4096)%4096:][:2*block]
	for i := range p {
		p[i] = byte(i)
	}
	expect(t, f.WriteDirect(p, int64(block)), nil)
	expect(t, f.Writev([][]byte{[]byte("buffered")}, int64(block)+10), nil)
	copy(p[10:], "buffered")
	p[0] = 'd'
	expect(t, f.WriteDirect(p, int64(block)), nil)
	got := make([]byte, 2*block)
	if _, err := f.ReadAt(got, int64(block)); err != nil || !bytes.Equal(got, p) {
		t.Fatal("read back something else", err)
	}
	if err := f.WriteDirect(p[:block], int64(block)+1); err == nil {
		t.Fatal("a write beside the blocks is taken")
	}
	readDirect(t, f, p)
}

func linkTemp(t *testing.T, files FS, dir string) {
	temp := createTemp(t, files, dir)
	expect(t, temp.Writev([][]byte{[]byte("hello")}, 0), nil)
	if err := temp.SetXattr("user.test", []byte("v")); !errors.Is(err, ErrNoXattr) {
		expect(t, err, nil)
		value, err := temp.GetXattr("user.test")
		if string(value) != "v" {
			t.Fatal(value, err)
		}
		expect(t, temp.RemoveXattr("user.test"), nil)
	}
	_, err := temp.GetXattr("user.test")
	expect(t, err, ErrNoXattr)
	expect(t, temp.RemoveXattr("user.test"), ErrNoXattr)
	linked := filepath.Join(dir, "linked")
	expect(t, files.Link(temp, linked), nil)
	expect(t, files.Link(temp, linked), fs.ErrExist)
	expect(t, temp.Close(), nil)
	if _, err := files.Open(filepath.Join(dir, "temp")); err == nil {
		expect(t, files.Remove(filepath.Join(dir, "temp")), nil)
	}
	f, err := files.Open(linked)
	expect(t, err, nil)
	p := make([]byte, 5)
	if _, err := f.ReadAt(p, 0); err != nil || string(p) != "hello" {
		t.Fatal(string(p), err)
	}
	expect(t, f.Close(), nil)
}

// createTemp makes a file without a name, or one called temp where that cannot be.
func createTemp(t *testing.T, files FS, dir string) File {
	temp, err := files.CreateTemp(dir)
	if errors.Is(err, ErrNoTemp) {
		temp, err = files.Create(filepath.Join(dir, "temp"))
	}
	expect(t, err, nil)
	return temp
}

// clone shares bytes between two files where the file system can: a change of
// one does not show in the other.
func clone(t *testing.T, files FS, dir string) {
	source, err := files.Open(filepath.Join(dir, "linked"))
	expect(t, err, nil)
	target, err := files.Create(filepath.Join(dir, "clone"))
	expect(t, err, nil)
	want := ""
	if err := target.Clone(source); !errors.Is(err, ErrNoClone) {
		expect(t, err, nil)
		want = "hello"
	}
	expect(t, source.Writev([][]byte{[]byte("HE")}, 0), nil)
	p := make([]byte, 6)
	if n, err := target.ReadAt(p, 0); string(p[:n]) != want {
		t.Fatal(string(p), err)
	}
	expect(t, source.Writev([][]byte{[]byte("he")}, 0), nil)
	expect(t, source.Close(), nil)
	expect(t, target.Close(), nil)
	expect(t, files.Remove(filepath.Join(dir, "clone")), nil)
}

func lockTwice(t *testing.T, files FS, root string) {
	first, err := files.OpenDir(root)
	expect(t, err, nil)
	second, err := files.OpenDir(root)
	expect(t, err, nil)
	expect(t, first.Lock(), nil)
	expect(t, second.Lock(), ErrLocked)
	expect(t, first.SyncFS(), nil)
	if usage, err := first.Usage(); err != nil || usage.Bytes == 0 || usage.BytesFree > usage.Bytes {
		t.Fatal(usage, err)
	}
	expect(t, first.Close(), nil)
	expect(t, second.Lock(), nil)
	expect(t, second.Close(), nil)
}

func expect(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// A crash keeps what was flushed, and may or may not keep the rest.
func TestCrashClone(t *testing.T) {
	mem := NewMem("/d")
	f, err := mem.Create("/d/kept")
	expect(t, err, nil)
	flushed := bytes.Repeat([]byte("f"), 2000)
	expect(t, f.Writev([][]byte{flushed}, 0), nil)
	expect(t, f.Datasync(), nil)
	expect(t, mem.SyncDir("/d"), nil)
	expect(t, f.Writev([][]byte{bytes.Repeat([]byte("u"), 2000)}, 2000), nil)
	_, err = mem.Create("/d/unsynced")
	expect(t, err, nil)
	lengths, names := map[int]bool{}, map[int]bool{}
	for seed := range uint64(200) {
		clone := mem.CrashClone(rand.New(rand.NewPCG(seed, 0)))
		data := clone.nodes["/d/kept"].data
		if !bytes.HasPrefix(data, flushed) {
			t.Fatal("flushed bytes are lost")
		}
		lengths[len(data)] = true
		names[len(clone.nodes)] = true
	}
	if !lengths[2000] || !lengths[4000] || len(lengths) < 4 || len(names) != 2 {
		t.Fatal("the states have no variety", lengths, names)
	}
	mem.DropUnsynced("/d")
	expect(t, f.Datasync(), nil)
	if data := mem.CrashClone(rand.New(rand.NewPCG(1, 0))).nodes["/d/kept"].data; !bytes.Equal(data, flushed) {
		t.Fatal("a flush after a failed one brought dropped pages back")
	}
}

// PowerCuts makes every state of few changes in flight, and no state that loses
// what was flushed.
func TestPowerCuts(t *testing.T) {
	mem := NewMem("/d")
	f, err := mem.Create("/d/kept")
	expect(t, err, nil)
	expect(t, f.Writev([][]byte{bytes.Repeat([]byte("f"), 700)}, 0), nil)
	expect(t, f.Datasync(), nil)
	expect(t, mem.SyncDir("/d"), nil)
	recording := mem.Record()
	expect(t, f.Writev([][]byte{bytes.Repeat([]byte("u"), 1000)}, 700), nil) // the sectors end at 1024, 1536, 1700
	_, err = mem.Create("/d/new")
	expect(t, err, nil)
	steps := recording.Steps()
	if recording.Len() != 2 || steps[0].Op != "write" || steps[1].Op != "create" || steps[1].Name != "/d/new" {
		t.Fatal(steps)
	}
	shapes, names, digests := map[string]bool{}, map[int]bool{}, map[uint64]bool{}
	for cut := range steps[1].State.PowerCuts(rand.New(rand.NewPCG(1, 1)), 100) {
		data := cut.nodes["/d/kept"].data
		if !bytes.HasPrefix(data, bytes.Repeat([]byte("f"), 700)) {
			t.Fatal("flushed bytes are lost")
		}
		shape := ""
		for at := 700; at < len(data); at = (at/512 + 1) * 512 {
			shape += string(data[at : at+1])
		}
		shapes[shape] = true
		names[len(cut.nodes)] = true
		digests[cut.Digest()] = true
	}
	for _, shape := range []string{"", "u", "uu", "uuu", "\x00\x00\x00", "\x00uu", "u\x00u", "uu\x00"} {
		if !shapes[shape] {
			t.Errorf("the state %q is not made", shape)
		}
	}
	if len(names) != 2 || len(digests) < len(shapes) || len(digests) > 2*len(shapes) {
		t.Error(names, digests, shapes)
	}
	for cut := range steps[0].State.PowerCuts(rand.New(rand.NewPCG(1, 1)), 100) {
		if cut.nodes["/d/new"] != nil {
			t.Fatal("a state holds what came later")
		}
	}
}

// Clones share bytes with the original, and do not see what it writes later.
func TestClonesGoTheirOwnWays(t *testing.T) {
	mem := NewMem("/d")
	f, err := mem.Create("/d/f")
	expect(t, err, nil)
	expect(t, f.Writev([][]byte{[]byte("abcd")}, 0), nil)
	expect(t, f.Datasync(), nil)
	clone := mem.KillClone()
	twin, err := clone.Open("/d/f")
	expect(t, err, nil)
	expect(t, f.Writev([][]byte{[]byte("X")}, 1), nil)
	expect(t, f.Writev([][]byte{[]byte("E")}, 4), nil)
	expect(t, twin.Writev([][]byte{[]byte("ef")}, 4), nil)
	expect(t, twin.Truncate(2), nil)
	expect(t, twin.Writev([][]byte{[]byte("Z")}, 2), nil)
	node, other := mem.nodes["/d/f"], clone.nodes["/d/f"]
	if string(node.data) != "aXcdE" || string(other.data) != "abZ" || string(node.synced) != "abcd" || string(other.synced) != "abcd" {
		t.Fatalf("%q %q %q %q", node.data, other.data, node.synced, other.synced)
	}
	if node, other := mem.nodes["/d"], clone.nodes["/d"]; node == other {
		t.Fatal("directories are shared")
	}
}

// Close releases the lock though a process that is being started still has a
// copy of the descriptor.
func TestCloseUnlocksCopies(t *testing.T) {
	root := t.TempDir()
	first, err := OS{}.OpenDir(root)
	expect(t, err, nil)
	expect(t, first.Lock(), nil)
	fd, err := unix.Dup(first.(*osDir).fd)
	expect(t, err, nil)
	defer unix.Close(fd)
	expect(t, first.Close(), nil)
	second, err := OS{}.OpenDir(root)
	expect(t, err, nil)
	expect(t, second.Lock(), nil)
	expect(t, second.Close(), nil)
}

// Room that is reserved for a file is taken from the others, until the file is cut
// or gone.
func TestMemAllocate(t *testing.T) {
	mem := NewMem("/d")
	mem.SetLimit(100)
	directory, err := mem.OpenDir("/d")
	if err != nil {
		t.Fatal(err)
	}
	wantFree := func(want uint64) {
		t.Helper()
		if usage, err := directory.Usage(); err != nil || usage.BytesFree != want {
			t.Fatalf("%d bytes are free, want %d; %v", usage.BytesFree, want, err)
		}
	}
	f, err := mem.Create("/d/f")
	if err != nil {
		t.Fatal(err)
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(f.Allocate(60))
	wantFree(40)
	do(f.Writev([][]byte{make([]byte, 50)}, 0))
	wantFree(40)
	if err := f.Allocate(101); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	do(f.Writev([][]byte{make([]byte, 30)}, 50))
	wantFree(20)
	do(f.Truncate(10))
	wantFree(90)
	do(f.Allocate(30))
	do(mem.Remove("/d/f"))
	wantFree(100)
}

// Objects are other people's bytes: no other user of the host may read them,
// whatever the umask is.
func TestFilesArePrivate(t *testing.T) {
	before := unix.Umask(0)
	defer unix.Umask(before)
	root := t.TempDir()
	files := OS{}
	expect(t, files.Mkdir(filepath.Join(root, "d")), nil)
	made, err := files.Create(filepath.Join(root, "d", "made"))
	expect(t, err, nil)
	defer made.Close()
	want := map[string]os.FileMode{"d": 0o700 | os.ModeDir, "d/made": 0o600}
	if unnamed, err := files.CreateTemp(root); err == nil {
		defer unnamed.Close()
		expect(t, files.Link(unnamed, filepath.Join(root, "d", "linked")), nil)
		want["d/linked"] = 0o600
	}
	for name, mode := range want {
		info, err := os.Stat(filepath.Join(root, name))
		expect(t, err, nil)
		if info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), mode)
		}
	}
}

// What is written past the page cache to bytes that were durable needs no more than
// a flush of the disk, which that of any file is. All else needs its own.
func TestMemInPlace(t *testing.T) {
	mem := NewMem("/d")
	old, block := bytes.Repeat([]byte("o"), 2048), bytes.Repeat([]byte("n"), 512)
	var files [4]File
	for i := range files {
		f, err := mem.Create(fmt.Sprintf("/d/%d", i))
		expect(t, err, nil)
		expect(t, f.Writev([][]byte{old}, 0), nil)
		files[i] = f
		if ok, err := f.Anchor(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	expect(t, mem.SyncDir("/d"), nil)
	expect(t, files[0].WriteDirect(block, 512), nil)
	expect(t, files[1].WriteDirect(block, 2048), nil) // the file grows
	expect(t, files[2].Writev([][]byte{block}, 512), nil)
	for i, want := range []bool{true, false, false} {
		if files[i].InPlace(0, 512) != want {
			t.Errorf("file %d in place: %t", i, !want)
		}
	}
	expect(t, files[3].Datasync(), nil)
	lost := map[int]bool{}
	for seed := range uint64(50) {
		clone := mem.CrashClone(rand.New(rand.NewPCG(seed, 0)))
		for i, want := range []string{"n", "", "n"} {
			data := clone.nodes[fmt.Sprintf("/d/%d", i)].data
			if i == 1 && len(data) < 2560 || i != 1 && string(data[512:513]) != want {
				lost[i] = true
			}
		}
	}
	if lost[0] || !lost[1] || !lost[2] {
		t.Error("lost what is durable, or kept all that is not:", lost)
	}
}

// A file that has another name, or that is open elsewhere, is not for its holder
// alone.
func TestSole(t *testing.T) {
	root := t.TempDir()
	for name, files := range map[string]FS{root: OS{}, "/d": NewMem("/d")} {
		path := filepath.Join(name, "f")
		f, err := files.Create(path)
		expect(t, err, nil)
		want := func(want bool) {
			t.Helper()
			if sole, err := f.Sole(); sole != want || err != nil {
				t.Errorf("%T: sole %t, %v", files, sole, err)
			}
		}
		want(true)
		other, err := files.Open(path)
		expect(t, err, nil)
		want(false)
		expect(t, other.Close(), nil)
		want(true)
		expect(t, files.Link(f, path+"2"), nil)
		want(false)
		expect(t, files.Remove(path), nil)
		want(true)
		expect(t, f.Close(), nil)
	}
}
