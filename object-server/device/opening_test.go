package device

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"martlet/object-server/vfs"
)

// Those that wait until one partition is opened leave places for others.
func TestOpeningFillsNoDevice(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	for p := range 2 {
		must[State](t)(put(d, inPartition(fmt.Sprint(p), uint32(p)), fmt.Sprint(p), 1, body(1, 300)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	fs := newHanging(mem, func(op, name string) bool { return op == "read" && strings.HasPrefix(name, "/d/bundles/0/") })
	d = open(t, fs, "/d", Options{Concurrency: 2, OperationsMax: 8, busyAfter: 100 * time.Millisecond, stuckAfter: 300 * time.Millisecond})
	defer d.Close()
	wantBody(t, d, inPartition("1", 1), body(1, 300))
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			_, _, err := get(d, inPartition("0", 0))
			ended <- err
		}()
	}
	<-fs.entered
	for range cap(ended) - 1 { // all but the one that opens the partition
		if err := <-ended; !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	}
	if _, _, err := get(d, inPartition("1", 1)); err != nil {
		t.Error("a partition that is open:", err)
	}
	fs.letGo()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
