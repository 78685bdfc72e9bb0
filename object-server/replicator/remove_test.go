package replicator

import (
	"context"
	"encoding/binary"
	"net/http"
	"slices"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/replicator/wire"
	"martlet/object-server/ring"
	"martlet/object-server/server/versionid"
)

// removal is an item of wire.RemoveRequest.Versions: the version of a time, null if it is 0.
func removal(t *testing.T, version, ticks int, offset uint64) []byte {
	var id format.VersionID
	if version > 0 {
		of, err := format.ParseTimestamp(stamp(version))
		check(t, err)
		id = versionid.Of(of)
	}
	of, err := format.ParseTimestamp(stamp(ticks))
	check(t, err)
	b := binary.LittleEndian.AppendUint64(append([]byte{}, id[:]...), of.Ticks)
	return binary.LittleEndian.AppendUint64(b, offset)
}

// remove sends a RemoveRequest to a host.
func (h *host) remove(name string, versions []byte) (locked int, err error) {
	h.t.Helper()
	r, connections, _ := h.replicator()
	defer connections.Close()
	hash := ring.NewHasher("", "x").Object("a", "c", name)
	to := r.remote(&ring.Device{IP: "127.0.0.1", Port: h.port, Name: "d1"}, 0)
	q := wire.RemoveRequest{Partition: to.partition(partitionOf(name)), Hash: hash[:], Name: "/a/c/" + name, Versions: versions}
	var a wire.Removed
	err = to.call(context.Background(), wire.NameRemove, &q, &a)
	return a.Locked, err
}

// Versions that were moved to another policy are removed. One that a replica has missed does not come back.
func TestRemovedVersionsStayAway(t *testing.T) {
	c := newCluster(t, 3)
	const name = "moved"
	put := func(ticks int, versioned bool, hosts ...int) {
		t.Helper()
		var headers []string
		if versioned {
			headers = []string{"X-Backend-Version-Id", stamp(ticks)}
		}
		for _, i := range hosts {
			if status, answer := c.hosts[i].ask(http.MethodPut, name, ticks, content(name, ticks), headers...); status != 201 {
				t.Fatalf("PUT at host %d: %d %s", i, status, answer)
			}
		}
	}
	put(10, false, 0, 1, 2)
	put(20, true, 0, 1, 2)
	put(30, true, 0) // the others miss it
	put(40, true, 0, 1, 2)
	removals := slices.Concat(removal(t, 0, 10, 1), removal(t, 20, 20, 1), removal(t, 30, 30, 1))
	for _, h := range c.hosts[1:] {
		if locked, err := h.remove(name, removals); err != nil || locked != 0 {
			t.Fatalf("host %d: %d locked, %v", h.number, locked, err)
		}
	}
	c.passAll()
	for _, h := range c.hosts {
		for _, version := range []int{20, 30, 40} {
			status, _ := h.ask(http.MethodGet, name, 0, nil, "X-Backend-Version-Id", stamp(version))
			if isThere := status == 200; isThere != (version == 40) {
				t.Errorf("host %d: GET of %d: %d", h.number, version, status)
			}
		}
	}
	// What is written later than a removal stays.
	put(50, false, 0, 1, 2)
	if _, err := c.hosts[0].remove(name, removal(t, 0, 45, 1)); err != nil {
		t.Error(err)
	}
	c.wantObject(name, content(name, 50), 0)
}

// Replicas know a null version with different offsets if some were away while it was moved. It is kept once, and removed once.
func TestANullVersionWithTwoOffsetsIsOneVersion(t *testing.T) {
	c := newCluster(t, 3)
	const name = "null"
	for i, h := range c.hosts {
		at := stamp(10)
		if i > 0 {
			at += "_0000000000000002"
		}
		put := func(ticks int, headers ...string) {
			t.Helper()
			if status, answer := h.ask(http.MethodPut, name, ticks, content(name, ticks), headers...); status != 201 {
				t.Fatalf("PUT at host %d: %d %s", i, status, answer)
			}
		}
		put(10, "X-Timestamp", at)
		put(20, "X-Backend-Version-Id", stamp(20))
		if i < 2 { // one replica does not keep it before the pass
			put(30)
		}
	}
	c.passAll()
	count := func() (versions []string) {
		t.Helper()
		for _, h := range c.hosts {
			for _, at := range []string{stamp(10), stamp(10) + "_0000000000000002"} {
				if status, _ := h.ask(http.MethodGet, name, 0, nil, "X-Backend-Version-Id", at); status == 200 {
					versions = append(versions, at)
				}
			}
		}
		return versions
	}
	if found := count(); !slices.Equal(found, []string{stamp(10), stamp(10), stamp(10)}) {
		t.Errorf("kept as %q", found)
	}
	for _, h := range c.hosts[:2] {
		if status, _ := h.ask(http.MethodDelete, name, 40, nil, "X-Backend-Version-Id", stamp(10)); status != 204 {
			t.Errorf("DELETE: %d", status)
		}
	}
	c.passAll()
	if found := count(); len(found) > 0 {
		t.Errorf("removed, but there as %q", found)
	}
	if r := c.passAll(); r.Sent > 0 {
		t.Errorf("replicas differ: %+v", r)
	}
}

func TestLockedVersionsAreNotRemoved(t *testing.T) {
	h := newCluster(t, 3).hosts[0]
	lock := []string{"X-Backend-Version-Id", stamp(10), "X-Backend-Lock-Mode", "COMPLIANCE", "X-Backend-Lock-Until", "9999999999.00000"}
	if status, answer := h.ask(http.MethodPut, "kept", 10, []byte("x"), lock...); status != 201 {
		t.Fatalf("PUT: %d %s", status, answer)
	}
	if locked, err := h.remove("kept", removal(t, 10, 10, 1)); err != nil || locked != 1 {
		t.Errorf("%d locked, %v", locked, err)
	}
	h.wantObject("kept", []byte("x"), 0)
}

func TestRemovalsThatAreNone(t *testing.T) {
	h := newCluster(t, 3).hosts[0]
	for _, versions := range [][]byte{make([]byte, wire.RemovalSize-1), make([]byte, wire.RemovalSize)} {
		if _, err := h.remove("none", versions); err == nil {
			t.Errorf("%d bytes are taken", len(versions))
		}
	}
}
