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
	source := write("sdb", "")
	sources := xfsSources(write("mounts", source+" /srv/node/d1 xfs rw 0 0\nproc /proc proc rw 0 0\n"))
	if len(sources) != 1 || sources["/srv/node/d1"] != "sdb" {
		t.Fatalf("the sources are %v", sources)
	}
	write("sys/sdb/stats/stats", "extent_alloc 1 2\nig 100 60 1 40 2 30 5\n")
	events := xfsInodeCache(filepath.Join(folder, "sys"), "sdb")
	if events["missed"] != 40 || events["attempts"] != 100 || events["changed"] != 5 {
		t.Errorf("the events are %v", events)
	}
	write("sys/sdb/stats/stats", "ig 1 nonsense\n")
	if events := xfsInodeCache(filepath.Join(folder, "sys"), "sdb"); events != nil {
		t.Errorf("nonsense gives %v", events)
	}
}
