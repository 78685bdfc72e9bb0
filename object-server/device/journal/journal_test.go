package journal

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

// What was durable when Settle was called is not replayed once it has returned, also
// while others write.
func TestSettleReachesWhatWasDurable(t *testing.T) {
	mem := vfs.NewMem("/d")
	if err := errors.Join(mem.Mkdir("/d/bundles"), mem.Mkdir("/d/bundles/3")); err != nil {
		t.Fatal(err)
	}
	var flushes, bytes atomic.Uint64
	c := Config{
		FS: mem, Root: "/d", Files: bundle.NewFiles(mem, "/d", 10), Bytes: 32 << 10, Logger: slog.New(slog.DiscardHandler),
		Err: func() error { return nil }, Failed: func(err error) { t.Error(err) }, TakeOut: func(err error) { t.Error(err) },
		Flushes: &flushes, BytesWritten: &bytes,
	}
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
