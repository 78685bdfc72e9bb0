package replicator

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"martlet/object-server/replicator/wire"
)

// namesOf are so many names of one partition.
func namesOf(partition uint32, count int) (names []string) {
	for i := 0; len(names) < count; i++ {
		if name := fmt.Sprint("o", i); partitionOf(name) == partition {
			names = append(names, name)
		}
	}
	return names
}

// sorted are the hashes of a list, in order.
func sorted(hashes []byte) (all []string) {
	for ; len(hashes) > 0; hashes = hashes[wire.HashSize:] {
		all = append(all, fmt.Sprintf("%x", hashes[:wire.HashSize]))
	}
	slices.Sort(all)
	return all
}

// However many names differ, near each other or not, exactly these are found, and sent with as many streams as it takes.
func TestNamesThatDiffer(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := newCluster(t, 3)
	var both, first, second []string
	for i, name := range namesOf(0, 1500) {
		switch {
		case i%3 > 0:
			both = append(both, name)
		case random.IntN(2) == 0:
			first = append(first, name)
		default:
			second = append(second, name)
		}
	}
	var want []byte
	for _, name := range slices.Concat(both, first, second) {
		hosts := []int{0, 1}
		switch {
		case slices.Contains(first, name):
			hosts = hosts[:1]
		case slices.Contains(second, name):
			hosts = hosts[1:]
		}
		c.put(name, 1, nil, hosts...)
		if len(hosts) == 1 {
			hash := md5.Sum([]byte("/a/c/" + name + "x"))
			want = wire.AppendHash(want, hash)
		}
	}
	ctx := context.Background()
	for _, most := range []int{1, 400, 16 << 10} {
		r, connections, _ := c.hosts[0].replicator()
		r.elementsAtOnce, r.namesAtOnce = most, 100
		x, p := c.hosts[0].step(r, 0)
		other := p.peers[0]
		if other.address != fmt.Sprintf("127.0.0.1:%d", c.hosts[1].port) {
			t.Fatalf("the first peer is %s", other)
		}
		got, err := r.names(ctx, x.own, other.remote, 0, &p.state, &other.state, power)
		if err != nil || !slices.Equal(sorted(got), sorted(want)) || bytes.Equal(got, nil) {
			t.Errorf("%d at once: %d names, not %d: %v", most, len(got)/wire.HashSize, len(want)/wire.HashSize, err)
		}
		if most == 16<<10 {
			done, err := x.sendDifference(ctx, p, other, &p.state)
			if err != nil || int(done.done.Stored) != len(first) {
				t.Errorf("%+v %v", done, err)
			}
		}
		connections.Close()
	}
	c.wantObject(first[0], nil, 0, 1)
	c.wantStatus(second[0], 404, 0)
}

// Records that are not in the files of the device any more come from the server, with as many requests as it takes.
func TestAllRecordsHaveMoved(t *testing.T) {
	c := newCluster(t, 3)
	names := namesOf(0, 20)
	for _, name := range names {
		c.put(name, 1, content(name, 10), 0)
	}
	elsewhere := t.TempDir()
	r, connections, log := c.hosts[0].replicator(func(config *Config) { config.Devices = elsewhere })
	defer connections.Close()
	r.namesAtOnce = 3
	if report, err := r.Pass(context.Background(), 0); err != nil || report.Sent != 40 || report.Failures != 0 {
		t.Errorf("%+v %v %s", report, err, log)
	}
	for _, name := range names {
		c.wantObject(name, content(name, 10), 1, 2)
	}
}

// A shipment may begin as soon as the one before has its answer.
func TestShipmentsFollowEachOther(t *testing.T) {
	c := newCluster(t, 3)
	c.put("o", 1, content("o", 10), 0)
	r, connections, _ := c.hosts[0].replicator()
	defer connections.Close()
	x, p := c.hosts[0].step(r, partitionOf("o"))
	q := wire.ExportRequest{Partition: x.own.partition(p.number)}
	for range 300 {
		if _, err := r.shipNames(context.Background(), x.own, q, nil, p.peers[0].remote); err != nil {
			t.Fatal(err)
		}
	}
}
