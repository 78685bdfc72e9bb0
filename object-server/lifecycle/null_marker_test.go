package lifecycle

import (
	"net/http"
	"slices"
	"testing"

	"martlet/object-server/bundle/format"
)

var suspended = []string{"x-container-sysmeta-versions-enabled", "false"}

// mark writes null delete markers, hide those that no client sees.
func (h *host) mark(name string, at format.Timestamp) {
	h.t.Helper()
	for i := range replicas {
		h.ask(i, http.MethodDelete, name, at, "X-Backend-Version-Id", "null", "X-Backend-Version-Marker", "true")
	}
}

func (h *host) hide(name string, at format.Timestamp) {
	h.t.Helper()
	for i := range replicas {
		h.ask(i, http.MethodDelete, name, at)
	}
}

// isMarked checks whether a null delete marker is current on all devices.
func (h *host) isMarked(want bool, name string, headers ...string) {
	h.t.Helper()
	for i := range replicas {
		a := h.ask(i, http.MethodHead, name, now(), headers...)
		isMarked := a.Header.Get("X-Backend-Version-Marker") != "" && a.Header.Get("X-Backend-Version-Id") == "null"
		if a.StatusCode != 404 || isMarked != want {
			h.t.Errorf("device %d, %s: %d %v", i, name, a.StatusCode, a.Header)
		}
	}
}

func TestNullMarkersWithoutVersionsGo(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{DeleteMarkers: true}}, suspended...)
	h.mark("/a/c/alone", days(2))
	h.putVersion("/a/c/above", days(3))
	h.mark("/a/c/above", days(1))
	h.mark("/a/c/hidden", days(3)) // and removed
	h.hide("/a/c/hidden", days(1))
	expect(t, h.pass(), Report{Markers: 1})
	h.isMarked(false, "/a/c/alone")
	h.isMarked(true, "/a/c/above")
	if rows := h.containers.taken(); !slices.Contains(rows, "alone 1 null") {
		t.Errorf("rows: %q", rows)
	}
	expect(t, h.pass(), Report{})
}

func TestNullMarkersThatAreNotCurrentGo(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{NoncurrentDays: number(3)}}, suspended...)
	marker := days(9)
	h.mark("/a/c/k", marker)
	h.putVersion("/a/c/k", days(5))
	h.putVersion("/a/c/hidden", days(20))
	h.hide("/a/c/hidden", days(2)) // only now it is not current
	h.putVersion("/a/c/hidden", days(1))
	over := days(20)
	h.putVersion("/a/c/over", over)
	h.hide("/a/c/over", days(9))
	expect(t, h.pass(), Report{Removed: 2})
	h.has(false, "/a/c/over", "X-Backend-Version-Id", over.String())
	h.isMarked(false, "/a/c/k", "X-Backend-Version-Id", marker.String())
	h.has(true, "/a/c/k")
	h.has(true, "/a/c/hidden")
	expect(t, h.pass(), Report{})
}

func TestExpiryWhereVersioningIsSuspended(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Days: number(3)}}, suspended...)
	h.put("/a/c/null", days(9))
	version := days(8)
	h.putVersion("/a/c/version", version)
	h.putVersion("/a/c/both", version)
	h.put("/a/c/both", days(7))
	expect(t, h.pass(), Report{Expired: 3})
	for _, name := range []string{"/a/c/null", "/a/c/version", "/a/c/both"} {
		h.isMarked(true, name)
	}
	h.has(true, "/a/c/version", "X-Backend-Version-Id", version.String())
	expect(t, h.pass(), Report{})
}
