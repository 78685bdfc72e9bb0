package lifecycle

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"martlet/object-server/ring"
)

// Names of several partitions are worked on at once. The cursor stays before the first one that is not done, so that a process
// that is killed meanwhile leaves nothing out.
func TestPartitionsAtOnce(t *testing.T) {
	h := newHost(t)
	paths := onePerPartition()
	first := path.Base(paths[0])
	release, came := make(chan struct{}), make(chan string, 1000)
	h.containers.held = func(name string) chan struct{} {
		came <- name
		if name == first {
			return release
		}
		return nil
	}
	h.containers.set("/a/b", []Rule{{Days: number(1)}})
	h.containers.set("/a/c", []Rule{{Days: number(1)}})
	for _, name := range paths {
		h.put(name, days(9))
	}
	l, _ := h.lifecycle(0)
	d := l.deviceOf("d0", fmt.Sprint("127.0.0.1:", h.port))
	all, err := d.units(nil)
	check(t, err)
	defer func(every time.Duration) { noteEvery = every }(noteEvery)
	noteEvery = 0
	ctx, cancel := context.WithCancel(context.Background())
	var report Report
	ended := make(chan struct{})
	go func() {
		d.pass(ctx, false, &report)
		close(ended)
	}()
	for found := map[string]int{}; len(found) < 3 || found[first] == 0; {
		found[<-came]++
	}
	cancel()
	close(release)
	<-ended
	if d.state.Pass.After != nil || !d.state.Pass.Ended.IsZero() {
		t.Errorf("%+v", d.state.Pass)
	}
	next, _ := h.lifecycle(0) // of another process
	h.containers.mu.Lock()
	h.containers.held = nil
	h.containers.mu.Unlock()
	d = next.deviceOf("d0", fmt.Sprint("127.0.0.1:", h.port))
	var second Report
	d.pass(context.Background(), false, &second)
	left := 0
	for _, name := range paths {
		if h.ask(0, http.MethodHead, name, now()).StatusCode == http.StatusOK {
			left++
		}
	}
	if left != second.Changed || left > 2 { // a DELETE that was cut off has reached some replicas, which wait for the replicator
		t.Errorf("%d names are left: %+v", left, second)
	}
	text, err := os.ReadFile(filepath.Join(h.device(0), CursorFile))
	check(t, err)
	var c cursor
	check(t, json.Unmarshal(text, &c))
	if c.Pass.Ended.IsZero() || *c.Pass.After != all[len(all)-1] {
		t.Errorf("%s", text)
	}
}

// onePerPartition has the path of one object of each partition. That of the first is in a container of its own, as rows of a
// container wait for its last update.
func onePerPartition() map[uint32]string {
	paths := map[uint32]string{}
	for n := 0; len(paths) < 1<<power; n++ {
		name := fmt.Sprint(n)
		for _, container := range []string{"b", "c"} {
			hash := ring.NewHasher("", "x").Object("a", container, name)
			partition := binary.BigEndian.Uint32(hash[:]) >> (32 - power)
			if (partition == 0) == (container == "b") {
				paths[partition] = "/a/" + container + "/" + name
			}
		}
	}
	return paths
}
