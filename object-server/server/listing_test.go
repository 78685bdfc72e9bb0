package server

import (
	"crypto/md5"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/server/conf"
	"martlet/object-server/updates"
)

// listings is a container server that keeps the rows that it receives, by path.
type listings struct {
	*httptest.Server
	mu   sync.Mutex
	rows map[string][]updates.Row
	hold chan struct{} // if set, requests wait until it is closed
	down atomic.Bool   // requests get 503
}

func newListings(t *testing.T) *listings {
	l := &listings{rows: map[string][]updates.Row{}}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.hold != nil {
			<-l.hold
		}
		if l.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var rows []updates.Row
		if err := json.NewDecoder(r.Body).Decode(&rows); err != nil || r.Method != "UPDATE" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rows[r.URL.Path] = append(l.rows[r.URL.Path], rows...)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(l.Close)
	return l
}

// headers name this server as the one for a container.
func (l *listings) headers() []string {
	return []string{
		"X-Container-Host", l.Listener.Addr().String(), "X-Container-Device", "sdb", "X-Container-Partition", "5",
	}
}

// expiry names this server as the one for the expirer's queue.
func (l *listings) expiry() []string {
	return []string{
		"X-Delete-At-Host", l.Listener.Addr().String(), "X-Delete-At-Device", "sdb", "X-Delete-At-Partition", "6",
		"X-Delete-At-Container", "1800000000",
	}
}

func (l *listings) take(path string) []updates.Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := l.rows[path]
	delete(l.rows, path)
	return rows
}

func (f *fixture) expectRow(l *listings, path string, want updates.Row) {
	f.t.Helper()
	rows := l.take(path)
	got, _ := json.Marshal(rows)
	expected, _ := json.Marshal([]updates.Row{want})
	if string(got) != string(expected) {
		f.t.Errorf("%s:\n got %s\nwant %s", path, got, expected)
	}
}

// pending counts the container updates that wait.
func (f *fixture) pending() int {
	count := 0
	for _, found := range f.server.devices.All() {
		count += found.Pending.Count()
	}
	return count
}

// patient waits for the container server as long as the test does.
func patient(c *conf.Config) {
	c.ContainerUpdateTimeout, c.ConnTimeout, c.NodeTimeout = time.Minute, time.Minute, time.Minute
}

const listingPath = "/sdb/5/AUTH_a/c"

func TestListingFollowsTheObject(t *testing.T) {
	f, l := newFixture(t, patient), newListings(t)
	f.mustPut(objectPath, "hello", "1700000000.00000", l.headers()...)
	row := updates.Row{
		Name: "o", CreatedAt: "1700000000.00000", Size: 5, ContentType: "text/plain",
		ETag: "5d41402abc4b2a76b9719d911017c592",
	}
	f.expectRow(l, listingPath, row)

	headers := append(l.headers(), "X-Timestamp", "1700000001.00000", "Content-Type", "a/b")
	f.expect(f.do("POST", objectPath, "", headers...), 202, "POST")
	stamp := "1700000001.00000"
	row.ContentType, row.ContentTypeTimestamp, row.MetaTimestamp = "a/b", &stamp, &stamp
	f.expectRow(l, listingPath, row)

	headers = append(l.headers(), "X-Timestamp", "1700000002.00000")
	f.expect(f.do("DELETE", objectPath, "", headers...), 204, "DELETE")
	f.expectRow(l, listingPath, updates.DeletedRow("o", "1700000002.00000", 0))
	f.expect(f.do("DELETE", objectPath, "", headers...), 404, "the same DELETE")
	if rows := l.take(listingPath); rows != nil {
		t.Errorf("a DELETE that wrote nothing sent %v", rows)
	}
	f.expect(f.put(objectPath, "late", "1700000001.50000", l.headers()...), 409, "late PUT")
	if rows := l.take(listingPath); rows != nil || f.pending() != 0 {
		t.Errorf("a refused PUT sent %v, %d pending", rows, f.pending())
	}
}

func TestListingOverrides(t *testing.T) {
	f, l := newFixture(t, patient), newListings(t)
	headers := append(l.headers(), "X-Backend-Container-Update-Override-Etag", "weak",
		"X-Backend-Container-Update-Override-Size", "77", "X-Object-Sysmeta-Container-Update-Override-Etag", "strong",
		"X-Object-Sysmeta-Container-Update-Override-Content-Type", "c/d", "X-Backend-Storage-Policy-Index", "1",
		"X-Backend-Quoted-Container-Path", ".shards_a/c%2D1")
	f.mustPut(objectPath, "hello", "1700000000.00000", headers...)
	row := updates.Row{
		Name: "o", CreatedAt: "1700000000.00000", Size: 77, ContentType: "c/d", ETag: "strong", PolicyIndex: 1,
	}
	f.expectRow(l, "/sdb/5/.shards_a/c-1", row)
}

// An override that begins with a semicolon follows the object's own ETag, also in the row of a POST.
func TestListingParameters(t *testing.T) {
	f, l := newFixture(t, patient), newListings(t)
	f.mustPut(objectPath, "hello", "1700000000.00000",
		append(l.headers(), "X-Object-Sysmeta-Container-Update-Override-Etag", "; a=b")...)
	etag := fmt.Sprintf("%x; a=b", md5.Sum([]byte("hello")))
	if rows := l.take(listingPath); len(rows) != 1 || rows[0].ETag != etag {
		t.Errorf("a PUT sent %v", rows)
	}
	f.expect(f.do("POST", objectPath, "", append(l.headers(), "X-Timestamp", "1700000001.00000")...), 202, "POST")
	if rows := l.take(listingPath); len(rows) != 1 || rows[0].ETag != etag {
		t.Errorf("a POST sent %v", rows)
	}
}

func TestSeveralContainerServers(t *testing.T) {
	f, first, second := newFixture(t, patient), newListings(t), newListings(t)
	f.mustPut(objectPath, "x", "1700000000.00000", "X-Container-Partition", "5", "X-Container-Device", "sdb, sdc",
		"X-Container-Host", first.Listener.Addr().String()+", "+second.Listener.Addr().String())
	if len(first.take("/sdb/5/AUTH_a/c")) != 1 || len(second.take("/sdc/5/AUTH_a/c")) != 1 {
		t.Error("a row is missing")
	}
	f.mustPut(objectPath, "x", "1700000001.00000", "X-Container-Partition", "5", "X-Container-Device", "sdb",
		"X-Container-Host", "127.0.0.1:1,127.0.0.1:2")
	if !strings.Contains(f.log.String(), "the number of hosts") {
		t.Error("a bad list was not logged")
	}
}

func TestAnUndeliveredUpdateIsPendingBeforeTheAnswer(t *testing.T) {
	f, l := newFixture(t), newListings(t)
	l.hold = make(chan struct{})
	release := sync.OnceFunc(func() { close(l.hold) })
	t.Cleanup(release)
	f.mustPut(objectPath, "x", "1700000000.00000", l.headers()...)
	if f.pending() != 1 {
		t.Errorf("%d updates are pending", f.pending())
	}
	release()
	f.await("delivery", func() bool { return f.pending() == 0 && len(l.take(listingPath)) > 0 })
}

func TestExpirerQueueFollowsTheObject(t *testing.T) {
	f, l := newFixture(t, patient), newListings(t)
	const queue = "/sdb/6/.expiring_objects/1800000000"
	f.mustPut(objectPath, "hello", "1700000000.00000", append(l.expiry(), "X-Delete-At", "1800000100")...)
	stamp := "1700000000.00000"
	row := updates.Row{
		Name: "1800000100-AUTH_a/c/o", CreatedAt: stamp, ContentType: "text/plain;swift_expirer_bytes=5",
		ETag: "d41d8cd98f00b204e9800998ecf8427e", ContentTypeTimestamp: &stamp,
	}
	f.expectRow(l, queue, row)

	headers := append(l.expiry(), "X-Timestamp", "1700000001.00000", "X-Delete-At", "1800000200")
	f.expect(f.do("POST", objectPath, "", headers...), 202, "POST")
	row.Name, row.CreatedAt = "1800000200-AUTH_a/c/o", "1700000001.00000"
	f.expectRow(l, queue, row)
	if f.pending() != 1 {
		t.Errorf("%d updates are pending, want the removal of the old time", f.pending())
	}
	f.expect(f.do("DELETE", objectPath, "", "X-Timestamp", "1700000002.00000",
		"X-Backend-Clean-Expiring-Object-Queue", "false"), 204, "DELETE without cleaning")
	if f.pending() != 1 {
		t.Errorf("%d updates are pending", f.pending())
	}
	f.mustPut(objectPath, "hello", "1700000003.00000", "X-Delete-At", "1800000100", "X-Backend-Replication", "true")
	f.mustPut(objectPath, "hello", "1700000004.00000", "X-Delete-At", "1800000100")
	if f.pending() != 1 {
		t.Errorf("%d updates are pending after writes that need none", f.pending())
	}
	f.expect(f.do("DELETE", objectPath, "", "X-Timestamp", "1700000005.00000"), 204, "DELETE")
	if f.pending() != 2 {
		t.Errorf("%d updates are pending", f.pending())
	}
}

// A POST that is newer than a PUT overrides it: neither listing nor queue may have the values of the PUT.
func TestListingAndQueueOfAPutOlderThanThePost(t *testing.T) {
	f, l := newFixture(t, patient), newListings(t)
	f.mustPut(objectPath, "hello", "1700000000.00000")
	headers := append(l.expiry(), "X-Timestamp", "1700000002.00000", "X-Delete-At", "1800000200", "Content-Type", "a/b")
	f.expect(f.do("POST", objectPath, "", headers...), 202, "POST")
	l.take("/sdb/6/.expiring_objects/1800000000")
	headers = append(append(l.expiry(), l.headers()...), "X-Delete-At", "1800000100")
	f.mustPut(objectPath, "again", "1700000001.00000", headers...)
	stamp := "1700000002.00000"
	f.expectRow(l, listingPath, updates.Row{
		Name: "o", CreatedAt: "1700000001.00000", Size: 5, ContentType: "a/b", ETag: "639849f6b368019778991b32434354fc",
		ContentTypeTimestamp: &stamp, MetaTimestamp: &stamp,
	})
	if rows := l.take("/sdb/6/.expiring_objects/1800000000"); rows != nil || f.pending() != 0 {
		t.Errorf("the queue was told %v, %d pending", rows, f.pending())
	}
	if got := f.do("HEAD", objectPath, "").header.Get("X-Delete-At"); got != "1800000200" {
		t.Errorf("X-Delete-At is %q", got)
	}
}

// The names of queue containers must be those that OpenStack Swift's expirer looks for.
func TestExpirerContainerNames(t *testing.T) {
	for hash, want := range map[byte]string{0: "1799971200", 99: "1799971101", 100: "1799971200", 101: "1799971199"} {
		if got := expirerContainer([16]byte{15: hash}, 1800000100); got != want {
			t.Errorf("hash %d: got %s, want %s", hash, got, want)
		}
	}
	large := format.Hash{0: 1} // 2^120 modulo 100 is 76
	if got := expirerContainer(large, 1800000100); got != "1799971124" {
		t.Errorf("large hash: got %s", got)
	}
	if got := expirerContainer(large, 5); got != "0000000000" {
		t.Errorf("early: got %s", got)
	}
}

func TestSplitList(t *testing.T) {
	if got := splitList(" a, b ,c"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
}
