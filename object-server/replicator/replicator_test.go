package replicator

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// sizes has an object within a record, one of several chunks and one with a file of its own.
var sizes = []int{10, 70_000, 300_000}

// A peer gets what it has missed: objects, newer objects and deletes. A second pass sends nothing.
func TestPeersGetWhatTheyMissed(t *testing.T) {
	c := newCluster(t, 4)
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprint("o", i)
		all := c.primaries(partitionOf(names[i]))
		size := sizes[i%len(sizes)]
		c.put(names[i], 1, content("old", size), all...)
		switch i % 4 {
		case 1: // replaced, but not at one of them
			c.put(names[i], 2, content(names[i], size), all[1:]...)
		case 2: // deleted, but not at one of them
			for _, at := range all[:2] {
				c.hosts[at].ask(http.MethodDelete, names[i], 2, nil)
			}
		case 3: // new at one of them only
			names[i] += "-new"
			c.put(names[i], 3, content(names[i], size), c.primaries(partitionOf(names[i]))[2])
		}
	}
	c.passAll()
	for i, name := range names {
		all := c.primaries(partitionOf(name))
		size := sizes[i%len(sizes)]
		switch i % 4 {
		case 0:
			c.wantObject(name, content("old", size), all...)
		case 2:
			c.wantStatus(name, 404, all...)
		default:
			c.wantObject(name, content(name, size), all...)
		}
	}
	if again := c.passAll(); again.Sent != 0 || again.InSync != again.Partitions || again.Failures != 0 {
		t.Errorf("the second pass: %+v", again)
	}
}

// An empty disk gets all of its partitions, each from one peer.
func TestAnEmptyDiskIsFilled(t *testing.T) {
	c := newCluster(t, 3)
	for i := range 60 {
		name := fmt.Sprint("o", i)
		c.put(name, 1, content(name, sizes[i%len(sizes)]), 0, 1, 2)
	}
	c.hosts[1].wipe()
	c.wantStatus("o1", 404, 1)
	if report := c.passAll(); report.Sent != 60 || report.Failures != 0 {
		t.Errorf("%+v", report)
	}
	for i := range 60 {
		name := fmt.Sprint("o", i)
		c.wantObject(name, content(name, sizes[i%len(sizes)]), 0, 1, 2)
	}
}

// A hand-off is removed once all primaries have what it has, and not before.
func TestAHandoffIsGivenBack(t *testing.T) {
	c := newCluster(t, 4)
	name := "o"
	all := c.primaries(partitionOf(name))
	handoff := (all[2] + 1) % 4
	c.put(name, 1, content(name, 10), handoff)
	c.put("p"+name, 1, nil, c.primaries(partitionOf("p"+name))...)
	c.hosts[all[1]].stop()
	if report := c.hosts[handoff].pass(); report.GivenBack != 0 || report.Handoffs != 1 || report.Failures == 0 {
		t.Errorf("a primary is away: %+v", report)
	}
	c.wantObject(name, content(name, 10), all[0], all[2], handoff)
	c.hosts[all[1]].start()
	if report := c.hosts[handoff].pass(); report.GivenBack != 1 || report.Failures != 0 {
		t.Errorf("all primaries are there: %+v", report)
	}
	c.wantObject(name, content(name, 10), all...)
	c.wantStatus(name, 404, handoff)
	left, err := os.ReadDir(filepath.Join(c.hosts[handoff].device(), "bundles", fmt.Sprint(partitionOf(name))))
	if err == nil {
		t.Errorf("the directory of the hand-off has %d files", len(left))
	}
}

// Whatever each replica has missed, all are equal after passes of all hosts: objects, metadata, versions, delete markers and
// removals. The seed is in the log.
func TestAnyHistoryEndsEqual(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	c := newCluster(t, 3)
	ids, made := map[string][]string{}, map[string][]string{} // all times of a name, and those of its versions
	for i := range 120 {
		name := fmt.Sprint("o", i)
		for ticks := 1; ticks <= 1+r.IntN(8); ticks++ {
			ids[name] = append(ids[name], stamp(ticks))
			method, body, headers := anyRequest(r, name, ticks, made[name])
			if len(headers) > 0 && headers[0] == "X-Backend-Version-Id" && headers[1] == stamp(ticks) {
				made[name] = append(made[name], stamp(ticks))
			}
			for _, at := range r.Perm(3)[:1+r.IntN(3)] {
				if status, answer := c.hosts[at].ask(method, name, ticks, body, headers...); status >= 500 {
					t.Fatalf("%s %s: %d %s", method, name, status, answer)
				}
			}
		}
	}
	for round := 0; ; round++ {
		report := c.passAll()
		if report.Failures != 0 || round == 4 {
			t.Fatalf("round %d: %+v", round, report)
		}
		if report.Sent == 0 {
			break
		}
	}
	for name, versions := range ids {
		want := c.hosts[0].all(name, versions)
		for _, h := range c.hosts[1:] {
			if got := h.all(name, versions); !slices.Equal(got, want) {
				t.Errorf("%s at host %d:\n%q\nat host 0:\n%q", name, h.number, got, want)
			}
		}
	}
}

// anyRequest is a write of any kind, some of which will be refused. Versions that it removes were made with an id: the null
// version under the id of its time is another one where the removal comes first.
func anyRequest(r *rand.Rand, name string, ticks int, made []string) (method string, body []byte, headers []string) {
	body = content(fmt.Sprint(name, ticks), sizes[r.IntN(len(sizes))])
	older := stamp(ticks)
	if len(made) > 0 {
		older = made[r.IntN(len(made))]
	}
	switch r.IntN(8) {
	case 0, 1:
		return http.MethodPut, body, nil
	case 2:
		return http.MethodPut, body, []string{"X-Backend-Version-Id", stamp(ticks)}
	case 3:
		return http.MethodPost, nil, []string{"X-Object-Meta-Color", fmt.Sprint(ticks)}
	case 4:
		return http.MethodPost, nil, []string{"X-Object-Meta-Color", fmt.Sprint(ticks), "X-Backend-Version-Id", older}
	case 5:
		return http.MethodDelete, nil, []string{"X-Backend-Version-Id", stamp(ticks), "X-Backend-Version-Marker", "true"}
	case 6:
		if len(made) > 0 {
			return http.MethodDelete, nil, []string{"X-Backend-Version-Id", older}
		}
	}
	return http.MethodDelete, nil, nil
}

// all is everything that a host answers about a name and its versions. Whether a name with only a null version had others
// before is no part of the set, so it is left out: the header of the id, and the null version under the id of its time.
func (h *host) all(name string, versions []string) (all []string) {
	null := ""
	for _, id := range append([]string{""}, versions...) {
		var headers []string
		if id != "" {
			headers = []string{"X-Backend-Version-Id", id}
		}
		if id == null && id != "" {
			continue
		}
		status, answer, body := h.exchange(http.MethodGet, name, 0, nil, headers...)
		answer.Del("Date")
		answer.Del("X-Trans-Id")
		if version := answer.Get("X-Backend-Version-Id"); id == "" && (version == "null" || version == "") {
			null = answer.Get("X-Backend-Data-Timestamp")
			answer.Del("X-Backend-Version-Id")
		}
		text := fmt.Sprint(id, " ", status)
		if status == http.StatusOK { // of removals, replicas keep what they know
			for _, header := range slices.Sorted(maps.Keys(answer)) {
				text += fmt.Sprint(" ", header, "=", answer[header])
			}
			text += fmt.Sprint(" ", len(body), bytes.Count(body, body[:1]))
		}
		all = append(all, text)
	}
	return all
}

// A record that has rotten is replaced by that of a peer, in a pass of the host that has the damage.
func TestDamageIsMended(t *testing.T) {
	c := newCluster(t, 3)
	for i := range 20 {
		name := fmt.Sprint("o", i)
		c.put(name, 1, content(name, 5000), 0, 1, 2)
	}
	h := c.hosts[1]
	h.stop()
	flipped := h.flip(content("o7", 5000)[:64])
	h.start()
	if flipped == 0 {
		t.Fatal("the bytes of the object were not found")
	}
	if status, _ := h.ask(http.MethodGet, "o7", 0, nil); status == 200 || status == 404 {
		t.Fatalf("a rotten object: %d", status)
	}
	report := h.pass()
	if report.Damaged != 1 || report.Fetched != 1 || report.Failures != 0 {
		t.Errorf("%+v", report)
	}
	for i := range 20 {
		name := fmt.Sprint("o", i)
		c.wantObject(name, content(name, 5000), 0, 1, 2)
	}
	if report := h.pass(); report.Damaged != 0 || report.Sent+report.Fetched != 0 {
		t.Errorf("the second pass: %+v", report)
	}
}

// flip changes a bit wherever some bytes begin in the files of the device, and returns how often.
func (h *host) flip(some []byte) (count int) {
	check(h.t, filepath.WalkDir(h.device(), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.Index(b, some)
		if at < 0 {
			return nil
		}
		b[at] ^= 1
		count++
		return os.WriteFile(path, b, 0o600)
	}))
	return count
}

// flipInPlace is flip while the server has the files open.
func (h *host) flipInPlace(some []byte) (count int) {
	check(h.t, filepath.WalkDir(filepath.Join(h.device(), "bundles"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.Index(b, some)
		if at < 0 {
			return nil
		}
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		check(h.t, err)
		_, err = file.WriteAt([]byte{b[at] ^ 1}, int64(at))
		check(h.t, err)
		count++
		return file.Close()
	}))
	return count
}
