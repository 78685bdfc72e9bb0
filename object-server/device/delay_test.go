package device

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"martlet/object-server/vfs"
)

func putSmall(d *Device, i int) error {
	name := fmt.Sprintf("/a/c/%d", i)
	_, err := put(d, locate(name, 4), name, 1, []byte("x"))
	return err
}

// Writers that come in groups share more flushes with a delay than without, and a lone writer is not delayed.
func TestCommitDelayServesGroupsOnly(t *testing.T) {
	t.Parallel() // it waits for most of its time
	const writers, each = 8, 20
	flushes := func(delay time.Duration) uint64 {
		slow := vfs.NewFaults(vfs.NewMem("/d"), func(op, _ string) error {
			if op == "datasync" || op == "syncfs" {
				time.Sleep(time.Millisecond) // as a disk: others arrive meanwhile, however late the scheduler is
			}
			return nil
		})
		d := open(t, slow, "/d", Options{CommitDelay: delay})
		defer d.Close()
		var group sync.WaitGroup
		for w := range writers {
			group.Add(1)
			go func() {
				defer group.Done()
				for i := range each {
					if err := putSmall(d, w*each+i); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		group.Wait()
		return d.Stats().Flushes
	}
	// Without a delay, a writer in one flush cannot be in the next: 20 rounds take 40. A delay gathers all that are
	// on their way, so they take little more than 20. The bound leaves room for a scheduler that is late.
	if got := flushes(time.Second / 4); got > each*3/2 {
		t.Errorf("%d flushes for %d grouped writes", got, writers*each)
	}

	d := open(t, vfs.NewMem("/d"), "/d", Options{CommitDelay: time.Hour})
	defer d.Close()
	for i := range each {
		if err := putSmall(d, i); err != nil { // would not return within the test's time
			t.Fatal(err)
		}
	}
	if got := d.Stats().Flushes; got != each {
		t.Errorf("%d flushes for %d single writes", got, each)
	}
}
