package device

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// A process that was halted for longer than a disk may be silent refuses nothing: neither those that wait for a read or
// a flush, nor those that come next.
func TestHaltIsNoSilenceOfTheDisk(t *testing.T) {
	const stuck = 5 * time.Second // much longer than the rest takes, also on a busy machine
	fs := newHanging(vfs.NewMem("/d"), never)
	var log proof.Log
	d := must[*Device](t)(Open(fs, "/d", Options{
		stuckAfter: stuck, Concurrency: 1, busyAfter: stuck, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}))
	defer d.Close()
	for _, name := range []string{"a", "b"} {
		must[State](t)(put(d, inPartition(name, 1), name, 1, body(1, 300)))
	}
	ended := make(chan error, 5)
	write := func(name string) {
		_, err := put(d, inPartition(name, 1), name, 1, body(2, 300))
		ended <- err
	}
	read := func(name string) {
		_, _, err := get(d, inPartition(name, 1))
		ended <- err
	}
	fs.set(func(op, name string) bool { return flushes(op, name) || reads(op, name) })
	go write("c") // its flush hangs
	<-fs.entered
	go write("d") // it waits for the next batch
	waitFor(t, "a write in the queue", func() bool {
		d.committer.mu.Lock()
		defer d.committer.mu.Unlock()
		return len(d.committer.queue) == 1
	})
	go read("a") // it hangs
	<-fs.entered
	go read("b") // it waits for the only place
	proof.Halt(t, stuck+time.Second)
	if err := d.answers(); err != nil {
		t.Error("calls:", err)
	}
	if err := d.committer.check(); err != nil {
		t.Error("the committer:", err)
	}
	go write("e")
	fs.letGo()
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(log.String(), "does not answer") {
		t.Error(log.String())
	}
}
