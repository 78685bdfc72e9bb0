package replicator

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A large object that cannot be read costs itself, and not the records behind it.
func TestALargeObjectThatCannotBeRead(t *testing.T) {
	c := newCluster(t, 4)
	c.writeRing(always(1, 2, 3), c.hosts...)
	names := namesOf(0, 3)
	for i, name := range names {
		c.put(name, 1, content(name, []int{10, 300_000, 10}[i]), 0)
	}
	large, err := filepath.Glob(filepath.Join(c.hosts[0].device(), "bundles", "0", "large", "*"))
	check(t, err)
	if len(large) != 1 {
		t.Fatalf("%d large objects", len(large))
	}
	check(t, os.Truncate(large[0], 100_000))
	report := c.hosts[0].pass()
	if report.GivenBack != 0 || report.Sent != 6 {
		t.Errorf("%+v", report)
	}
	c.wantObject(names[0], content(names[0], 10), 1, 2, 3)
	c.wantObject(names[2], content(names[2], 10), 1, 2, 3)
	c.wantStatus(names[1], 404, 1, 2, 3)
}

// A peer that is full takes no objects, but deletes: these make room.
func TestAFullDiskTakesDeletes(t *testing.T) {
	c := newCluster(t, 3)
	names := namesOf(0, 2)
	c.put(names[1], 1, content(names[1], 10), 0, 1, 2)
	c.put(names[0], 1, content(names[0], 10), 0, 2)
	for _, at := range []int{0, 2} {
		if status, _ := c.hosts[at].ask(http.MethodDelete, names[1], 2, nil); status != 204 {
			t.Fatal(status)
		}
	}
	full := c.hosts[1]
	full.stop()
	b, err := os.ReadFile(full.conf())
	check(t, err)
	write(t, full.conf(), regexp.MustCompile(`(?m)^mount_check`).ReplaceAllString(string(b), fmt.Sprint("fallocate_reserve = ", int64(1)<<60, "\nmount_check")))
	full.start()
	report := c.hosts[0].pass()
	c.wantStatus(names[0], 404, 1)
	c.wantStatus(names[1], 404, 1)
	if report.Failures == 0 || report.InSync != 0 {
		t.Errorf("%+v", report)
	}
}
