package device

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"martlet/object-server/vfs"
)

// A disk in order that flushes large objects one after the other refuses nothing.
func TestSlowFlushesRefuseNothing(t *testing.T) {
	var slow sync.Mutex // the disk: one flush after the other
	fs := newHanging(vfs.NewMem("/d"), never)
	d := open(t, fs, "/d", Options{Concurrency: 4, SpillBytes: 1000, busyAfter: 500 * time.Millisecond, stuckAfter: 2 * time.Second, noFloor: true})
	defer d.Close()
	must[State](t)(put(d, inPartition("small", 1), "small", 1, body(1, 300)))
	must[State](t)(put(d, inPartition("large", 2), "large", 1, body(1, 5000)))
	flushing := make(chan struct{}, 8)
	isLarge := func(op, name string) bool { return op == "datasync" && name == "/d" } // it has no name yet
	fs.set(func(op, name string) bool {
		if isLarge(op, name) {
			fs.mu.Unlock()
			defer fs.mu.Lock()
			flushing <- struct{}{}
			slow.Lock()
			time.Sleep(600 * time.Millisecond)
			slow.Unlock()
		}
		return false
	})
	ended := make(chan error, 8)
	for i := range cap(ended) {
		go func() {
			_, err := put(d, inPartition(fmt.Sprint(i), 2), fmt.Sprint(i), 1, body(2, 5000))
			ended <- err
		}()
	}
	<-flushing
	refused := 0
	for range 10 {
		if _, _, err := get(d, inPartition("small", 1)); err != nil {
			refused++
			t.Log(err)
		}
	}
	if refused > 0 {
		t.Errorf("%d of 10 GETs refused", refused)
	}
	refused = 0
	for range cap(ended) {
		if err := <-ended; err != nil {
			refused++
			t.Log(err)
		}
	}
	if refused > 0 {
		t.Errorf("%d of %d PUTs refused", refused, cap(ended))
	}
}
