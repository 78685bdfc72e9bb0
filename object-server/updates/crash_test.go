package updates

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"martlet/object-server/vfs"
)

// What Append acknowledged is read again after any power cut; a frame that was not is whole or absent.
func TestAcknowledgedUpdatesSurviveAPowerCut(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		memory := vfs.NewMem("/", "/sda")
		if err := memory.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		disk := &failingFS{FS: memory, failAt: rng.IntN(30)}
		log, err := openSegmentLog(disk, "/sda", folder, new(marks))
		if err != nil {
			t.Fatal(err)
		}
		var acknowledged, tried []string
		for i := range 5 {
			names := []string{fmt.Sprint(i, "a"), fmt.Sprint(i, "b")}
			tried = append(tried, names...)
			var updates []Update
			for _, name := range names {
				updates = append(updates, Update{Target{Account: "a", Container: "c"}, putRow(name)})
			}
			if _, _, err := log.append(updates); err == nil {
				acknowledged = append(acknowledged, names...)
			}
			if rng.IntN(3) == 0 {
				log.rotate()
			}
		}
		after := memory.CrashClone(rng)
		again, err := openSegmentLog(after, "/sda", folder, new(marks))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, s := range again.rotate() {
			updates, _, err := s.read(after)
			if err != nil {
				t.Fatal(err)
			}
			if len(updates)%2 != 0 {
				t.Errorf("seed %d: half a frame", seed)
			}
			for _, update := range updates {
				found = append(found, update.Row.Name)
			}
		}
		for _, name := range acknowledged {
			if !slices.Contains(found, name) {
				t.Fatalf("seed %d: %s was acknowledged and is lost; found %v", seed, name, found)
			}
		}
		for _, name := range found {
			if !slices.Contains(tried, name) {
				t.Fatalf("seed %d: %s was never written", seed, name)
			}
		}
	}
}

// failingFS fails the write or flush number failAt, and goes on.
type failingFS struct {
	vfs.FS
	failAt int
	count  int
}

type failingFile struct {
	vfs.File
	fs *failingFS
}

func (f *failingFS) fails() bool {
	f.count++
	return f.count == f.failAt
}

func (f *failingFS) Create(name string) (vfs.File, error) {
	if f.fails() {
		return nil, vfs.ErrNoSpace
	}
	file, err := f.FS.Create(name)
	return &failingFile{file, f}, err
}

func (f *failingFS) SyncDir(name string) error {
	if f.fails() {
		return vfs.ErrNoSpace
	}
	return f.FS.SyncDir(name)
}

func (f *failingFile) Writev(buffers [][]byte, offset int64) error {
	if f.fs.fails() {
		return vfs.ErrNoSpace
	}
	return f.File.Writev(buffers, offset)
}

func (f *failingFile) Datasync() error {
	if f.fs.fails() {
		return vfs.ErrNoSpace
	}
	return f.File.Datasync()
}
