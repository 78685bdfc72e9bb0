package replicator

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// lose makes the record of a name that was written last unreadable, so that its name is not known any more.
func (h *host) lose(name string) {
	h.t.Helper()
	h.stop()
	hash := md5.Sum([]byte("/a/c/" + name + "x"))
	lost := 0
	check(h.t, filepath.WalkDir(filepath.Join(h.device(), "bundles"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if at := bytes.LastIndex(b, hash[:]); err == nil && at >= 0 {
			clear(b[at-32 : at+16])
			err = os.WriteFile(path, b, 0o600)
			lost++
		}
		return err
	}))
	if lost != 1 {
		h.t.Fatalf("%d files have the name", lost)
	}
	h.start()
}

// A host that has lost a tombstone, and knows it, does not give its peers the object that they have deleted. It has been
// started anew, so nothing has opened the partition before its pass.
func TestALostTombstoneBringsNothingBack(t *testing.T) {
	c := newCluster(t, 4)
	c.writeRing(always(0, 1, 2), c.hosts...)
	for _, owner := range []int{0, 3} { // a primary and a hand-off
		name := fmt.Sprint("o", owner)
		c.put(name, 1, content(name, 10), owner)
		c.hosts[owner].ask(http.MethodDelete, name, 2, nil)
		for i := 0; ; i++ { // one more of the partition proves that the tombstone was acknowledged
			if more := fmt.Sprint("p", owner, "-", i); partitionOf(more) == partitionOf(name) {
				c.put(more, 3, content(more, 10), slices.Compact(slices.Sorted(slices.Values([]int{0, 1, 2, owner})))...)
				break
			}
		}
		h := c.hosts[owner]
		h.lose(name)
		for range 2 {
			if report := h.pass(); report.GivenBack != 0 || report.Damaged != 1 {
				t.Errorf("host %d: %+v", owner, report)
			}
		}
		c.wantStatus(name, 404, 1, 2)
	}
}

// A host that has lost a record of an unknown name gets it from a peer, and only what it lacks.
func TestADoubtEnds(t *testing.T) {
	c := newCluster(t, 3)
	var names []string
	for i := 0; len(names) < 20; i++ {
		if name := fmt.Sprint("o", i); partitionOf(name) == 0 {
			names = append(names, name)
			c.put(name, 1, content(name, 300), 0, 1, 2)
		}
	}
	c.hosts[0].lose(names[7])
	if report := c.hosts[0].pass(); report.Damaged != 1 || report.Fetched != 1 || report.Bytes > 20*1000 || report.Failures != 0 || report.InSync != 1 {
		t.Errorf("%+v", report)
	}
	for _, name := range names {
		c.wantObject(name, content(name, 300), 0, 1, 2)
	}
	if report := c.hosts[0].pass(); report.Damaged != 0 || report.Fetched != 0 {
		t.Errorf("%+v", report)
	}
}
