package replicator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
)

// inPartition0 are names of one partition.
func inPartition0(n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprint("o", i); partitionOf(name) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// smallSegments starts a host anew with segments of 1 MiB.
func (h *host) smallSegments() {
	h.t.Helper()
	h.stop()
	b, err := os.ReadFile(h.conf())
	check(h.t, err)
	write(h.t, h.conf(), string(b)+"bundle_segment_size = 1048576\n")
	h.start()
}

// rot flips a bit in the header of each record of a name, and lets a reader meet it.
func (h *host) rot(name string) {
	h.t.Helper()
	if h.rotHeaders(name) == 0 {
		h.t.Fatal("nothing was flipped")
	}
	h.ask(http.MethodGet, name, 0, nil)
}

// isSound tells whether a host knows of no damage, and serves names without doubt as they should be; nil for deleted.
func (h *host) isSound(want map[string][]byte) bool {
	h.t.Helper()
	if h.knownDamages() != `[{"device":"d1","count":0,"newest":[]}]` {
		return false
	}
	for name, body := range want {
		status, headers, got := h.exchange(http.MethodGet, name, 0, nil)
		if headers.Get("X-Backend-Doubt") != "" || body == nil && status != 404 || body != nil && (status != 200 || string(got) != string(body)) {
			return false
		}
	}
	return true
}

// wantSound makes passes until all hosts are sound, and sees that they still are after a restart of one.
func (c *cluster) wantSound(want map[string][]byte, restarted *host) {
	c.t.Helper()
	areSound := func() bool {
		for _, h := range c.hosts {
			if !h.isSound(want) {
				return false
			}
		}
		return true
	}
	for range 4 {
		c.passAll()
	}
	if !areSound() {
		c.t.Fatal("the hosts are not equal after 4 passes")
	}
	restarted.stop()
	restarted.start()
	c.passAll()
	if !areSound() {
		c.t.Error("the hosts are not equal after a restart")
	}
}

// The header of a tombstone that the peers have too is damaged, in the segment that grows or in one with a footer. The object
// stays deleted.
func TestADamagedTombstoneComesFromAPeer(t *testing.T) {
	for _, where := range []string{"the segment that grows", "before a damaged footer", "before a footer"} {
		t.Run(where, func(t *testing.T) {
			c := newCluster(t, 3)
			h := c.hosts[1]
			if where != "the segment that grows" {
				h.smallSegments()
			}
			names := inPartition0(32)
			want := map[string][]byte{names[0]: nil}
			c.put(names[0], 1, content(names[0], 10), 0, 1, 2)
			for _, one := range c.hosts {
				one.ask(http.MethodDelete, names[0], 2, nil)
			}
			for _, name := range names[1:30] {
				want[name] = content(name, 60_000)
				c.put(name, 3, want[name], 0, 1, 2)
			}
			if where == "before a footer" {
				eventually(t, "the segment has a footer", func() bool { return h.rotSecond(names[0]) == 1 })
				h.ask(http.MethodGet, names[0], 0, nil)
			} else {
				h.rot(names[0])
			}
			c.wantSound(want, h)
		})
	}
}

// Two replicas, and then all three, have damaged headers of different records.
func TestDamagedHeadersOnSeveralReplicas(t *testing.T) {
	for _, damaged := range []int{2, 3} {
		t.Run(fmt.Sprint(damaged), func(t *testing.T) {
			c := newCluster(t, 3)
			names := inPartition0(20)
			want := map[string][]byte{names[0]: nil, names[19]: nil}
			c.put(names[0], 1, content(names[0], 10), 0, 1, 2)
			for _, name := range names[1:19] {
				want[name] = content(name, 300)
				c.put(name, 2, want[name], 0, 1, 2)
			}
			for _, h := range c.hosts {
				h.ask(http.MethodDelete, names[0], 3, nil)
			}
			want[names[18]] = content(names[18], 500)
			c.put(names[18], 4, want[names[18]], 0, 1, 2)
			for i, h := range c.hosts[:damaged] {
				h.rot(names[3+i])
			}
			c.wantSound(want, c.hosts[0])
		})
	}
}

// A write that one peer has missed and a damaged header of one of the others: it is nowhere lost.
func TestADamagedHeaderBesideAMissedWrite(t *testing.T) {
	c := newCluster(t, 3)
	names := inPartition0(12)
	want := map[string][]byte{}
	for i, name := range names {
		want[name] = content(name, 300)
		to := []int{0, 1, 2}
		switch {
		case i == 3: // both damaged hosts have it, or have lost it
			to = []int{0, 1}
		case i == 4:
			to = []int{0, 2}
		case i == 11: // it is later than what is lost
			to = []int{1}
		}
		c.put(name, 1, want[name], to...)
	}
	c.hosts[0].rot(names[3])
	c.hosts[1].rot(names[5])
	c.wantSound(want, c.hosts[1])
}

// One host alone has an object and its tombstone, of which the header rots. The object is given to no peer, and is not served as
// if nothing were in doubt, also after a restart; where its segment is full, and where it is not.
func TestALoneDamagedTombstoneBringsNothingBack(t *testing.T) {
	for what, behind := range map[string]int{"same segment": 0, "an older one": 19} {
		for _, isRestarted := range []bool{false, true} {
			t.Run(fmt.Sprint(what, isRestarted), func(t *testing.T) {
				c := newCluster(t, 3)
				h := c.hosts[1]
				h.smallSegments()
				names := inPartition0(40)
				c.put(names[0], 1, content(names[0], 10), 1)
				for _, name := range names[1 : 1+behind] {
					c.put(name, 2, content(name, 90_000), 0, 1, 2)
				}
				h.ask(http.MethodDelete, names[0], 3, nil)
				for _, name := range names[20:24] {
					c.put(name, 4, content(name, 90), 0, 1, 2)
				}
				c.put(names[30], 4, content(names[30], 90), 1) // it is sent, whatever is in doubt
				if h.rotLast(names[0]) != 1 {
					t.Fatal("nothing was flipped")
				}
				if isRestarted {
					h.stop()
					h.start()
				} else {
					h.ask(http.MethodGet, names[0], 0, nil)
				}
				for range 2 {
					for range 3 {
						c.passAll()
					}
					c.wantStatus(names[0], 404, 0, 2)
					if status, headers, _ := h.exchange(http.MethodGet, names[0], 0, nil); status == 200 && headers.Get("X-Backend-Doubt") == "" {
						t.Error("the deleted object is served without doubt")
					}
					c.wantObject(names[30], content(names[30], 90), 0, 1, 2)
					c.wantObject(names[21], content(names[21], 90), 0, 1, 2)
					h.stop()
					h.start()
				}
			})
		}
	}
}

// One host alone has a deleted object in a segment with a footer, which says what the damaged header was: the name is gone.
func TestALoneDamagedTombstoneInAFooter(t *testing.T) {
	c := newCluster(t, 3)
	h := c.hosts[1]
	h.smallSegments()
	names := inPartition0(24)
	want := map[string][]byte{names[0]: nil}
	c.put(names[0], 1, content(names[0], 10), 1)
	h.ask(http.MethodDelete, names[0], 2, nil)
	for _, name := range names[1:20] {
		want[name] = content(name, 90_000)
		c.put(name, 3, want[name], 0, 1, 2)
	}
	eventually(t, "the segment has a footer", func() bool { return h.rotSecond(names[0]) == 1 })
	h.ask(http.MethodGet, names[0], 0, nil)
	c.wantSound(want, h)
}

// Two hosts have reclaimed a tombstone that the third one still has, and with it the object that it deleted. The header of the
// tombstone rots there: no peer has a trace of either.
func TestADamagedTombstoneThatPeersHaveReclaimed(t *testing.T) {
	c := newCluster(t, 3)
	h := c.hosts[1]
	for _, i := range []int{0, 2} {
		c.hosts[i].smallSegments()
	}
	names := inPartition0(12)
	want := map[string][]byte{names[0]: nil}
	c.put(names[0], 1, content(names[0], 10), 0, 1, 2)
	for _, one := range c.hosts {
		one.ask(http.MethodDelete, names[0], 2, nil)
	}
	for _, name := range names[1:] {
		want[name] = content(name, 300)
		c.put(name, 3, want[name], 0, 1, 2)
	}
	c.passAll()
	c.passAll() // all know that all have the tombstone
	ticks := 10
	eventually(t, "the tombstone is reclaimed", func() bool {
		for _, name := range names[1:] {
			ticks++
			want[name] = content(name, 90_000+ticks)
			c.put(name, ticks, want[name], 0, 2)
		}
		return c.hosts[0].tombstones() == 0 && c.hosts[2].tombstones() == 0
	})
	c.passAll()
	if h.tombstones() != 1 {
		t.Fatal("it is reclaimed everywhere")
	}
	isStored := false
	flipped := h.rotWhere(names[0], func(places []int) []int {
		isStored = len(places) == 2
		return places[1:]
	})
	if !isStored || flipped != 1 {
		t.Fatal("the object and its tombstone are not there")
	}
	h.ask(http.MethodGet, names[0], 0, nil)
	c.wantSound(want, h)
}

// Disks of both peers are new: what the third host alone has reaches them, although a header is damaged there.
func TestADamagedHeaderBesideNewDisks(t *testing.T) {
	for _, isSynced := range []bool{true, false} {
		t.Run(fmt.Sprint(isSynced), func(t *testing.T) {
			c := newCluster(t, 3)
			names := inPartition0(12)
			for _, name := range names {
				c.put(name, 1, content(name, 300), 0, 1, 2)
			}
			if isSynced {
				c.passAll()
				c.passAll()
			}
			c.hosts[1].rot(names[5])
			for _, i := range []int{0, 2} {
				c.hosts[i].wipe()
			}
			for range 4 {
				c.passAll()
			}
			for i, name := range names {
				if i != 5 {
					c.wantObject(name, content(name, 300), 0, 1, 2)
				}
			}
		})
	}
}

// tombstones is how many a host has in partition 0.
func (h *host) tombstones() int {
	h.t.Helper()
	r, connections, _ := h.replicator()
	defer connections.Close()
	state, err := h.devicePass(r).own.state(context.Background(), 0, 0)
	check(h.t, err)
	return int(state.Digest.Tombstones.Count)
}
