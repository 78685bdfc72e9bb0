package recon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"martlet/object-server/reconcache"
)

func TestDigestsFollowTheirFiles(t *testing.T) {
	folder := t.TempDir()
	r := New("test", t.TempDir(), folder, t.TempDir(), nil)
	path := filepath.Join(folder, "object-1.ring.gz")
	digests := map[string]bool{}
	for _, text := range []string{"first", "another"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rings := r.Rings()
		if len(rings) != 1 || rings[0].Name != "object-1" || rings[0].Modified.IsZero() {
			t.Fatalf("the rings are %v", rings)
		}
		digests[rings[0].MD5] = true
	}
	if len(digests) != 2 {
		t.Errorf("the digests are %v", digests)
	}
}

func TestPassesAreInSeconds(t *testing.T) {
	cache := t.TempDir()
	figures := map[string]any{
		"replication_last": 1700000000.5, "replication_time": 2.0,
		"replication_stats":        map[string]any{"attempted": 7, "in_sync": 6, "failure": 1},
		"object_expiration_pass":   3.5,
		"object_auditor_stats_ALL": map[string]any{"passes": 11},
	}
	if err := reconcache.Update(cache, "object", figures); err != nil {
		t.Fatal(err)
	}
	found := map[string]Pass{}
	for _, pass := range New("test", t.TempDir(), t.TempDir(), cache, nil).Passes() {
		found[pass.Job] = pass
	}
	replicator := found["object-replicator"]
	if replicator.Ended != 1700000000.5 || replicator.Seconds != 120 || fmt.Sprint(replicator.Items) != "map[attempted:7 failed:1 in_sync:6]" {
		t.Errorf("the replicator has %+v", replicator)
	}
	if found["object-expirer"].Seconds != 3.5 || found["object-auditor"].Items["passed"] != 11 {
		t.Errorf("the passes are %+v", found)
	}
}

func TestInodeCacheOfXFS(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mountinfo := write("mountinfo", "23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n"+
		"61 27 7:3 / /srv/node/d1 rw,noatime shared:29 - xfs /dev/sdb rw,attr2\n"+
		"62 27 7:4 / /srv/node/d2 rw,noatime - xfs /dev/sdc rw,attr2\n")
	links := filepath.Join(folder, "block")
	if err := os.Mkdir(links, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/virtual/block/loop3", filepath.Join(links, "7:3")); err != nil {
		t.Fatal(err)
	}
	devices := xfsDevices(mountinfo, links)
	if len(devices) != 1 || devices["/srv/node/d1"] != "loop3" {
		t.Fatalf("the devices are %v", devices)
	}
	write("sys/loop3/stats/stats", "extent_alloc 1 2\nig 100 60 1 40 2 30 5\n")
	events := xfsInodeCache(filepath.Join(folder, "sys"), "loop3")
	if events["missed"] != 40 || events["attempts"] != 100 || events["changed"] != 5 {
		t.Errorf("the events are %v", events)
	}
	write("sys/loop3/stats/stats", "ig 1 nonsense\n")
	if events := xfsInodeCache(filepath.Join(folder, "sys"), "loop3"); events != nil {
		t.Errorf("nonsense gives %v", events)
	}
}
