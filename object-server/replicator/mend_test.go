package replicator

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// follow lets the replicator of a host follow hints, without passes, until the test ends.
func (h *host) follow() {
	h.t.Helper()
	r, connections, log := h.replicator()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Follow(ctx)
	}()
	h.t.Cleanup(func() {
		cancel()
		<-ended
		connections.Close()
		h.t.Logf("host %d: %s", h.number, log)
	})
}

// rotHeaders flips a bit in the header of each record of a name on the device, and in the entries of footers.
func (h *host) rotHeaders(name string) (count int) {
	h.t.Helper()
	return h.rotWhere(name, func(places []int) []int { return places })
}

// rotLast flips a bit where a name stands last in the last file that has it.
func (h *host) rotLast(name string) (count int) {
	h.t.Helper()
	files, at := 0, 0
	h.rotWhere(name, func([]int) []int { files++; return nil })
	return h.rotWhere(name, func(places []int) []int {
		if at++; at < files {
			return nil
		}
		return places[len(places)-1:]
	})
}

// rotSecond flips a bit in the second of two records of a name in a segment, once that has a footer.
func (h *host) rotSecond(name string) (count int) {
	h.t.Helper()
	return h.rotWhere(name, func(places []int) []int {
		if len(places) != 4 {
			return nil
		}
		return places[1:2]
	})
}

// rotWhere flips a bit before some of the places of a hash in each file.
func (h *host) rotWhere(name string, choose func(places []int) []int) (count int) {
	h.t.Helper()
	hash := md5.Sum([]byte("/a/c/" + name + "x"))
	check(h.t, filepath.WalkDir(filepath.Join(h.device(), "bundles"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		var places []int
		for at := bytes.Index(b, hash[:]); at >= 0; {
			places = append(places, at)
			next := bytes.Index(b[at+1:], hash[:])
			if next < 0 {
				break
			}
			at += 1 + next
		}
		if err != nil || len(places) == 0 {
			return err
		}
		for _, at := range choose(places) {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			check(h.t, err)
			_, err = file.WriteAt([]byte{b[at-16] ^ 1}, int64(at-16))
			check(h.t, err)
			check(h.t, file.Close())
			count++
		}
		return nil
	}))
	return count
}

// Damage that a reader meets is repaired within seconds, without a pass: of data, of the header of a record, of a large file. The
// replica has none then.
func TestReadRepair(t *testing.T) {
	for what, size := range map[string]int{"data": 5000, "header": 5000, "large": 300_000} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t, 3)
			names := namesOf(0, 12)
			for i, name := range names {
				length := 3000
				if i == 5 {
					length = size
				}
				c.put(name, 1, content(name, 10), 0, 1, 2)
				c.put(name, 2, content(name, length), 0, 1, 2)
			}
			h, name := c.hosts[1], names[5]
			flipped := 0
			if what == "header" {
				flipped = h.rotHeaders(name)
			} else {
				flipped = h.flipInPlace(content(name, size)[:64])
			}
			if flipped == 0 {
				t.Fatal("nothing was flipped")
			}
			if status, _ := h.ask(http.MethodGet, name, 0, nil); status == 404 || what != "large" && status == 200 {
				t.Fatalf("a rotten object: %d", status)
			}
			h.follow()
			eventually(t, "the object is whole", func() bool {
				status, headers, body := h.exchange(http.MethodGet, name, 0, nil)
				return status == 200 && headers.Get("X-Backend-Doubt") == "" && bytes.Equal(body, content(name, size))
			})
			eventually(t, "no damage is known", func() bool { return h.knownDamages() == `[{"device":"d1","count":0,"newest":[]}]` })
			eventually(t, "a name that is not there is known not to be", func() bool {
				status, headers, _ := h.exchange(http.MethodGet, namesOf(0, 13)[12], 0, nil)
				return status == 404 && headers.Get("X-Backend-Doubt") == ""
			})
			for i, name := range names {
				length := 3000
				if i == 5 {
					length = size
				}
				c.wantObject(name, content(name, length), 0, 1, 2)
			}
		})
	}
}

// The header of a record is damaged that the peers have replaced meanwhile: the newer write comes from them, although the damaged
// record could be newer still.
func TestDamagedHeaderOfAnOlderRecord(t *testing.T) {
	c := newCluster(t, 3)
	names := namesOf(0, 12)
	for _, name := range names {
		c.put(name, 1, content(name, 10), 0, 1, 2)
	}
	name := names[5]
	c.put(name, 2, content(name, 3000), 0, 2)
	h := c.hosts[1]
	if h.rotHeaders(name) == 0 {
		t.Fatal("nothing was flipped")
	}
	eventually(t, "the peers have replaced it", func() bool {
		c.passAll()
		status, headers, body := h.exchange(http.MethodGet, name, 0, nil)
		return status == 200 && headers.Get("X-Backend-Doubt") == "" && bytes.Equal(body, content(name, 3000))
	})
	for _, other := range names {
		if other != name {
			c.wantObject(other, content(other, 10), 0, 1, 2)
		}
	}
}

// knownDamages is what the server says.
func (h *host) knownDamages() string {
	h.t.Helper()
	a, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/recon/damages", h.port))
	check(h.t, err)
	defer a.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(a.Body)
	check(h.t, err)
	return b.String()
}

// Damage of which no peer has a copy stays, and what is damaged is not given up.
func TestDamageThatNoPeerHas(t *testing.T) {
	c := newCluster(t, 3)
	names := namesOf(0, 3)
	for _, name := range names {
		c.put(name, 1, content(name, 5000), 0)
	}
	h := c.hosts[0]
	if h.flipInPlace(content(names[1], 5000)[:64]) == 0 {
		t.Fatal("nothing was flipped")
	}
	h.ask(http.MethodGet, names[1], 0, nil)
	for range 2 {
		if report := h.pass(); report.Damaged != 1 {
			t.Errorf("%+v", report)
		}
		if status, _ := h.ask(http.MethodGet, names[1], 0, nil); status != 503 {
			t.Errorf("GET: %d", status)
		}
	}
	c.wantObject(names[0], content(names[0], 5000), 0, 1, 2)
}
