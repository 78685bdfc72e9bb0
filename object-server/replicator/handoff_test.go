package replicator

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// always are the same primaries for all partitions.
func always(hosts ...int) func(uint32) []int { return func(uint32) []int { return hosts } }

// have counts the hosts that have an object.
func (c *cluster) have(name string, hosts ...int) (count int) {
	for _, i := range hosts {
		if status, _ := c.hosts[i].ask(http.MethodGet, name, 0, nil); status == 200 {
			count++
		}
	}
	return count
}

// Hosts of which each takes the others for the primaries, by an older ring, do not all give a partition back.
func TestRingsThatDisagreeLoseNothing(t *testing.T) {
	c := newCluster(t, 6)
	c.writeRing(always(3, 4, 5), c.hosts[:3]...)
	c.writeRing(always(0, 1, 2), c.hosts[3:]...)
	c.put("o", 1, content("o", 10), 0, 1, 2, 3, 4, 5)
	for range 3 {
		var wait sync.WaitGroup
		for _, h := range c.hosts {
			wait.Add(1)
			go func() {
				defer wait.Done()
				h.pass()
			}()
		}
		wait.Wait()
		if left := c.have("o", 0, 1, 2, 3, 4, 5); left < 3 {
			t.Fatalf("%d replicas are left", left)
		}
	}
}

// A host keeps what it promised to keep, until a newer ring says that the host to which it did has everything.
func TestARingThatGoesBack(t *testing.T) {
	c := newCluster(t, 4)
	c.put("o", 1, content("o", 10), 0, 1, 2, 3)
	c.ringVersion = 1
	c.writeRing(always(1, 2, 3), c.hosts...)
	if report := c.hosts[0].pass(); report.GivenBack != 1 || c.have("o", 1, 2, 3) != 3 {
		t.Fatalf("%+v", report)
	}
	c.writeRing(always(0, 1, 2), c.hosts[3]) // another ring of the same version
	if report := c.hosts[3].pass(); report.GivenBack != 0 || c.have("o", 3) != 1 {
		t.Errorf("by a ring that is not newer: %+v", report)
	}
	c.ringVersion = 2
	c.writeRing(always(0, 1, 2), c.hosts...)
	if report := c.hosts[3].pass(); report.GivenBack != 1 || c.have("o", 0, 1, 2) != 3 || c.have("o", 3) != 0 {
		t.Errorf("by a newer ring: %+v", report)
	}
}

// A host that was a hand-off has removed its replica, and is none of the primaries by a newer ring either. A former primary
// gives back what it promised to that host: the new primaries promise to keep it.
func TestAPromiseToAHostThatIsNoPrimary(t *testing.T) {
	c := newCluster(t, 5)
	c.ringVersion = 1
	c.writeRing(always(0, 1, 2), c.hosts...)
	c.put("o", 1, content("o", 10), 0, 1, 2, 3)
	if report := c.hosts[3].pass(); report.GivenBack != 1 || c.have("o", 0, 1, 2) != 3 {
		t.Fatalf("%+v", report)
	}
	c.writeRing(always(1, 2, 4), c.hosts[0]) // another ring of the same version
	if report := c.hosts[0].pass(); report.GivenBack != 0 || c.have("o", 0) != 1 {
		t.Errorf("by a ring that is not newer: %+v", report)
	}
	c.ringVersion = 2
	c.writeRing(always(1, 2, 4), c.hosts...)
	if report := c.hosts[0].pass(); report.GivenBack != 1 || c.have("o", 1, 2, 4) != 3 || c.have("o", 0) != 0 {
		t.Errorf("by a newer ring: %+v", report)
	}
}

// A host does not let go what it has promised since it asked: the other host may be about to remove its replica.
func TestAPromiseThatIsMadeMeanwhile(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t, 4)
	c.put("o", 1, content("o", 10), 0, 1, 2, 3)
	c.ringVersion = 1
	c.writeRing(always(1, 2, 3), c.hosts[0])
	c.ringVersion = 2
	c.writeRing(always(0, 1, 2), c.hosts[3])
	partition := partitionOf("o")
	var passes [2]*devicePass
	var known [2]*replicas
	for i, h := range []*host{c.hosts[0], c.hosts[3]} {
		r, connections, _ := h.replicator()
		defer connections.Close()
		passes[i], known[i] = h.step(r, partition)
		passes[i].settle(ctx, known[i])
	}
	promises, err := passes[1].own.promises(ctx, partition)
	check(t, err)
	if err := passes[0].askToKeep(ctx, known[0]); err != nil {
		t.Fatal(err)
	}
	if err := passes[1].askToKeep(ctx, known[1]); err != nil {
		t.Fatal(err)
	}
	if err := passes[1].drop(ctx, known[1], promises); err == nil || c.have("o", 3) != 1 {
		t.Errorf("removed although host 0 relies on it: %v", err)
	}
}

// step looks at a partition, and returns what a pass of a host knows of it.
func (h *host) step(r *Replicator, partition uint32) (*devicePass, *replicas) {
	h.t.Helper()
	x := h.devicePass(r)
	all, err := x.look(context.Background(), []uint32{partition})
	check(h.t, err)
	return x, all[0]
}

// A partition is not given back by an old ring: the device may be a primary by now.
func TestARingThatChangesInAPass(t *testing.T) {
	c := newCluster(t, 4)
	c.writeRing(always(1, 2, 3), c.hosts...)
	c.put("o", 1, content("o", 10), 0, 1, 2, 3)
	r, connections, _ := c.hosts[0].replicator()
	defer connections.Close()
	x, p := c.hosts[0].step(r, partitionOf("o"))
	x.settle(context.Background(), p)
	c.writeRing(always(0, 1, 2), c.hosts...)
	x.conclude(context.Background(), []*replicas{p})
	if c.have("o", 0) != 1 {
		t.Errorf("the partition was given back: %+v", x.report)
	}
}

// The disk of a primary is replaced while a hand-off is compared with it, or after it was. The hand-off stays until the new
// disk has everything.
func TestADiskThatIsReplacedInAPass(t *testing.T) {
	ctx := context.Background()
	for _, when := range []string{"before it is sent", "after it was sent"} {
		t.Run(when, func(t *testing.T) {
			c := newCluster(t, 4)
			c.writeRing(always(1, 2, 3), c.hosts...)
			c.put("o", 1, content("o", 10), 0, 1, 2, 3)
			r, connections, _ := c.hosts[0].replicator()
			defer connections.Close()
			x, p := c.hosts[0].step(r, partitionOf("o"))
			if when == "after it was sent" {
				x.settle(ctx, p)
			}
			c.hosts[2].wipe()
			if when == "before it is sent" {
				x.settle(ctx, p)
			}
			x.conclude(ctx, []*replicas{p})
			if c.have("o", 0) != 1 {
				t.Errorf("the partition was given back: %+v", x.report)
			}
			if report := c.hosts[0].pass(); report.GivenBack != 1 || c.have("o", 1, 2, 3) != 3 {
				t.Errorf("the next pass: %+v", report)
			}
		})
	}
}

// The records that an empty disk has got are forgotten if it is replaced by another empty one.
func TestAnEmptyDiskIsReplacedTwice(t *testing.T) {
	c := newCluster(t, 4)
	c.writeRing(always(1, 2, 3), c.hosts...)
	c.put("o", 1, content("o", 10), 0)
	c.hosts[1].stop()
	if report := c.hosts[0].pass(); report.Sent != 2 || report.GivenBack != 0 {
		t.Fatalf("%+v", report)
	}
	c.hosts[1].start()
	c.hosts[2].wipe()
	if report := c.hosts[0].pass(); report.Sent != 2 || report.GivenBack != 1 {
		t.Errorf("%+v", report)
	}
	c.wantObject("o", content("o", 10), 1, 2, 3)
}

// A ring that has the same place twice, as an entry with weight 0 and a new one, is no reason to remove what is there.
func TestAPlaceThatTheRingHasTwice(t *testing.T) {
	c := newCluster(t, 3)
	again := fmt.Sprintf(`{"id": 3, "device": "d1", "ip": "127.0.0.1", "port": %d, "region": 1, "zone": 1, "weight": 1}`, c.hosts[0].port)
	c.writeRingWith(power, []string{again}, always(3, 1, 2), c.hosts...)
	c.put("o", 1, content("o", 10), 0, 1, 2)
	if report := c.hosts[0].pass(); report.Handoffs != 0 || report.GivenBack != 0 || report.Partitions != 1 {
		t.Errorf("%+v", report)
	}
	c.wantObject("o", content("o", 10), 0, 1, 2)
}

// The removal of a version is in no digest. A hand-off gives it to a primary that has no trace of the version.
func TestAHandoffHasTheRemovalOfAVersion(t *testing.T) {
	c := newCluster(t, 4)
	c.writeRing(always(1, 2, 3), c.hosts...)
	id := stamp(1)
	c.hosts[0].ask(http.MethodPut, "o", 1, content("o", 10), "X-Backend-Version-Id", id)
	if status, answer := c.hosts[0].ask(http.MethodDelete, "o", 2, nil, "X-Backend-Version-Id", id); status != 204 {
		t.Fatalf("%d %s", status, answer)
	}
	if report := c.hosts[0].pass(); report.GivenBack != 1 {
		t.Errorf("it is not given back: %+v", report)
	}
	c.hosts[1].ask(http.MethodPut, "o", 1, content("o", 10), "X-Backend-Version-Id", id)
	if status, _ := c.hosts[1].ask(http.MethodGet, "o", 0, nil, "X-Backend-Version-Id", id); status != 404 {
		t.Errorf("the version is back: %d", status)
	}
}

// The ring of one host is of the next part power already: its partitions have other names than those of the devices. Nothing
// is sent or removed.
func TestARingOfAnotherPartPower(t *testing.T) {
	c := newCluster(t, 4)
	c.writeRing(always(1, 2, 3), c.hosts...)
	c.put("o", 1, content("o", 10), 0)
	c.writeRingWith(power+1, nil, always(1, 2, 3), c.hosts[0])
	if report := c.hosts[0].pass(); report.Partitions != 0 || report.Failures != 1 || report.Sent != 0 {
		t.Errorf("%+v", report)
	}
	c.wantObject("o", content("o", 10), 0)
}
