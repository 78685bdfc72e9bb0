package replicator

import (
	"context"
	"testing"
	"time"
)

// Recon shows the figures of the last pass of all devices, and no time of a pass before each device had one.
func TestFigures(t *testing.T) {
	c := newCluster(t, 3)
	c.put("one", 1, content("one", 100), 0, 1)
	r, connections, _ := c.hosts[0].replicator()
	defer connections.Close()

	before := r.Figures()
	if stats := before["replication_stats"].(Stats); stats.Unfinished != 1 {
		t.Errorf("before a pass: %+v", stats)
	}
	if before["replication_last"] != nil || before["object_replication_time"] != nil {
		t.Errorf("times before a pass: %v", before)
	}

	began := time.Now().Add(-time.Millisecond) // a figure has whole microseconds
	report, err := r.Pass(context.Background(), 0)
	check(t, err)
	figures := r.Figures()
	stats := figures["replication_stats"].(Stats)
	if stats.Unfinished != 0 || stats.Attempted != 1 || stats.Success != 1 || stats.InSync != report.InSync ||
		stats.Sent != 1 || stats.Bytes != report.Bytes || stats.Failure != 0 {
		t.Errorf("after a pass: %+v of %+v", stats, report)
	}
	last, ok := figures["object_replication_last"].(float64)
	if !ok || last < seconds(began) || last > seconds(time.Now()) || stats.Start < seconds(began) || stats.Start > last {
		t.Errorf("the pass began at %v and ended at %v, not after %v", stats.Start, last, seconds(began))
	}
	if took := figures["replication_time"].(float64); took <= 0 || took > (last-seconds(began))/60 {
		t.Errorf("a pass of %v minutes in %v seconds", took, last-seconds(began))
	}
	if disks := figures["object_replication_per_disk"].(map[string]any); len(disks) != 1 || disks["d1"] == nil {
		t.Errorf("the disks are %v", disks)
	}
}

// A pass that a signal ends, or that has a peer away, does not count as one in sync.
func TestFiguresOfAPassThatWasCutOff(t *testing.T) {
	c := newCluster(t, 3)
	c.put("one", 1, content("one", 100), 0)
	r, connections, _ := c.hosts[0].replicator()
	defer connections.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Pass(ctx, 0); err == nil {
		t.Fatal("the pass was not cut off")
	}
	if figures := r.Figures(); figures["replication_last"] != nil {
		t.Errorf("a pass that was cut off has figures: %v", figures)
	}
	c.hosts[1].stop()
	_, err := r.Pass(context.Background(), 0)
	check(t, err)
	if stats := r.Figures()["replication_stats"].(Stats); stats.Attempted != 1 || stats.Success != 0 || stats.Failure == 0 {
		t.Errorf("with a peer away: %+v", stats)
	}
}
