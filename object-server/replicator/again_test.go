package replicator

import (
	"context"
	"testing"

	"martlet/object-server/replicator/wire"
)

// A peer that got everything from another one since the pass came to the partition gets nothing twice.
func TestAPeerThatWasFilledMeanwhile(t *testing.T) {
	c := newCluster(t, 3)
	c.put("o", 1, content("o", 10), 0, 2)
	r, connections, _ := c.hosts[0].replicator()
	defer connections.Close()
	x, p := c.hosts[0].step(r, partitionOf("o"))
	c.hosts[2].pass()
	x.settle(context.Background(), p)
	if x.report.Bytes != 0 || !p.isInSync() {
		t.Errorf("%+v, in sync: %v", x.report, p.isInSync())
	}
}

// A peer that another one sends the records to is left to that one, before anything is read.
func TestAPeerThatIsBeingFilled(t *testing.T) {
	c := newCluster(t, 3)
	c.put("o", 1, content("o", 10), 0, 2)
	r, connections, _ := c.hosts[0].replicator()
	defer connections.Close()
	x, p := c.hosts[0].step(r, partitionOf("o"))
	for _, one := range p.peers {
		if one.state.Digest.IsEmpty() {
			place := one.remote.partition(p.number)
			other, err := one.remote.open(context.Background(), wire.NameImport, &place)
			check(t, err)
			defer other.Cancel()
			for one.remote.tryImport(context.Background(), p.number) == nil { // the other stream has not come yet
			}
		}
	}
	x.settle(context.Background(), p)
	if x.report != (Report{}) || p.isInSync() {
		t.Errorf("%+v, in sync: %v", x.report, p.isInSync())
	}
}
