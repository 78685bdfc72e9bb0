package journal

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

// deviceWithPartition is a device with the directory of partition 3.
func deviceWithPartition(t *testing.T) *vfs.Mem {
	mem := vfs.NewMem("/d")
	if err := errors.Join(mem.Mkdir("/d/bundles"), mem.Mkdir("/d/bundles/3")); err != nil {
		t.Fatal(err)
	}
	return mem
}

func configOf(t *testing.T, mem *vfs.Mem) *Config {
	return &Config{
		FS: mem, Root: "/d", Files: bundle.NewFiles(mem, "/d", 10), Bytes: 32 << 10, Logger: slog.New(slog.DiscardHandler),
		Err: func() error { return nil }, Failed: func(err error) { t.Error(err) }, TakeOut: func(err error) { t.Error(err) },
		Flushes: new(atomic.Uint64), BytesWritten: new(atomic.Uint64),
	}
}

// A batch that a crash has torn is never replayed once the journal was begun anew, even
// if a later write completes it: clients have used the device since.
func TestTornBatchIsOverOnceOpened(t *testing.T) {
	mem := deviceWithPartition(t)
	c := configOf(t, mem)
	j, err := c.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	newest, err := c.Replay()
	if err != nil {
		t.Fatal(err)
	}
	extent := bundle.Extent{ID: bundle.ID{Partition: 3}, Sequence: 1, Bytes: [][]byte{make([]byte, 100)}}
	head := header{Number: newest + 1, Salt: 5, Destaged: newest}
	buffers, _ := encodeBatch(&head, []bundle.Extent{extent})
	batch := slices.Concat(buffers...)
	write := func(bytes []byte) {
		f, err := mem.Open(c.path(0))
		if err == nil {
			err = errors.Join(f.Writev([][]byte{bytes}, 0), f.Datasync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	torn := slices.Clone(batch)
	torn[headerSize] ^= 1
	write(torn)
	if after, err := c.Replay(); err != nil || after != newest {
		t.Fatal(after, err)
	}
	if j, err = c.Open(newest); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	write(batch)
	crashed := mem.KillClone()
	if _, err := configOf(t, crashed).Replay(); err != nil {
		t.Fatal(err)
	}
	if names, err := crashed.ReadDir("/d/bundles/3"); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// What was durable when Settle was called is not replayed once it has returned, also
// while others write.
func TestSettleReachesWhatWasDurable(t *testing.T) {
	mem := deviceWithPartition(t)
	c := configOf(t, mem)
	j, err := c.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 4 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for range 50 {
				err := j.Begin(Room(1, 3000))
				if err == nil {
					err = j.Commit([]bundle.Extent{{ID: bundle.ID{Partition: 3}, Sequence: 1, Bytes: [][]byte{make([]byte, 3000)}}})
					j.End()
				}
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for range 50 {
		j.mu.Lock()
		number := j.number
		j.mu.Unlock()
		if err := j.Settle(); err != nil {
			t.Fatal(err)
		}
		j.mu.Lock()
		if j.noted < number {
			t.Errorf("batch %d was durable, %d is settled", number, j.noted)
		}
		j.mu.Unlock()
	}
	writers.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if newest, err := c.Replay(); err != nil || newest < 200 {
		t.Fatal(newest, err)
	}
}
