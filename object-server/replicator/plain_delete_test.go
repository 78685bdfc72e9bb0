package replicator

import (
	"fmt"
	"net/http"
	"testing"
)

// plainDelete is a cluster with a name that has had a DELETE without versioning at 30, and nothing else yet.
type plainDelete struct {
	*cluster
	name string
}

func (c *plainDelete) put(host, ticks int, headers ...string) {
	c.t.Helper()
	status, answer := c.hosts[host].ask(http.MethodPut, c.name, ticks, content(c.name, ticks), headers...)
	if status != 201 {
		c.t.Fatalf("PUT at host %d: %d %s", host, status, answer)
	}
}

func (c *plainDelete) version(host, ticks int) {
	c.put(host, ticks, "X-Backend-Version-Id", stamp(ticks))
}

func (c *plainDelete) remove(host, ticks int, headers ...string) {
	c.hosts[host].ask(http.MethodDelete, c.name, ticks, nil, headers...)
}

// want looks at what is current on all hosts, 0 for nothing, and at versions that all have.
func (c *plainDelete) want(current int, versions ...int) {
	c.t.Helper()
	for range 3 {
		c.passAll()
	}
	for i, h := range c.hosts {
		status, body := h.ask(http.MethodGet, c.name, 0, nil)
		if current == 0 && status != 404 || current > 0 && (status != 200 || len(body) != current) {
			c.t.Errorf("host %d: GET: %d, %d bytes", i, status, len(body))
		}
		for _, ticks := range versions {
			if status, _ := h.ask(http.MethodGet, c.name, 0, nil, "X-Backend-Version-Id", stamp(ticks)); status != 200 {
				c.t.Errorf("host %d: GET of %d: %d", i, ticks, status)
			}
		}
	}
}

// A host that has no version writes a tombstone, where the others write a delete marker. The tombstone removes only the
// null version. Versions that are older than the DELETE stay, and are not current.
func TestADeleteHidesVersionsThatAHostDidNotHave(t *testing.T) {
	for absent := range 3 {
		for _, isKnown := range []bool{true, false} { // the others have had the DELETE as well
			t.Run(fmt.Sprintf("%d %v", absent, isKnown), func(t *testing.T) {
				c := &plainDelete{newCluster(t, 3), "hidden"}
				for host := range c.hosts {
					if host != absent {
						c.version(host, 10)
						c.put(host, 15)
						c.version(host, 20)
					}
					if host == absent || isKnown {
						c.remove(host, 30)
					}
				}
				c.want(0, 10, 15, 20)
				c.version(0, 40)
				c.want(40, 10, 15, 20, 40)
			})
		}
	}
}

// A version that is later than the DELETE is current, also where the DELETE comes after it.
func TestADeleteDoesNotHideLaterVersions(t *testing.T) {
	c := &plainDelete{newCluster(t, 3), "later"}
	c.remove(0, 30)
	c.version(1, 40)
	c.version(2, 20)
	c.want(40, 20, 40)
}

// Removals of a null version by its id, and restores, leave tombstones as well. A host that gets all anew hides nothing.
func TestAHostThatWasAwayHidesNothingElse(t *testing.T) {
	for _, isRestore := range []bool{true, false} {
		c := &plainDelete{newCluster(t, 3), "away"}
		current := 20
		for host := range 2 {
			c.put(host, 10)
			if isRestore {
				current = 10
			}
			if !isRestore {
				c.version(host, 20)
				c.remove(host, 30, "X-Backend-Version-Id", stamp(10))
				continue
			}
			if status, _ := c.hosts[host].ask(http.MethodPut, c.name, 30, nil, "X-Backend-Version-Restore", stamp(10)); status != 201 {
				t.Fatalf("restore: %d", status)
			}
		}
		c.want(current, current)
	}
}
