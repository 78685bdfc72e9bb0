package lifecycle

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"martlet/object-server/bundle/format"
)

// packed is the stored form of rules.
func packed(rules []Rule) string {
	for i := range rules {
		rules[i].ID, rules[i].IsEnabled = fmt.Sprint("rule ", i), true
	}
	document, _ := json.Marshal(map[string]any{"format": 1, "rules": rules})
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(document)
	_ = z.Close()
	return "1:" + base64.StdEncoding.EncodeToString(b.Bytes())
}

func number(n int64) *int64 { return &n }

func expect(t *testing.T, got *Report, want Report) {
	t.Helper()
	want.Partitions, want.Left, want.Names, want.Bytes = got.Partitions, got.Left, got.Names, got.Bytes
	if *got != want {
		t.Errorf("%+v\nwhere %+v is expected", *got, want)
	}
}

func TestObjectsThatHaveExpired(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Prefix: "logs/", Days: number(3), Tags: map[string]string{"keep": "no"}}})
	h.containers.set("/a/other", nil)
	tags := []string{"X-Object-Transient-Sysmeta-S3Api-Tagging", "keep=no&ü=%C3%A4"}
	h.put("/a/c/logs/old ü?", days(9), tags...)
	h.put("/a/c/logs/new", days(2), tags...)
	h.put("/a/c/logs/untagged", days(9))
	h.put("/a/c/other", days(9), tags...)
	h.put("/a/other/logs/old", days(9), tags...)
	h.put("/.expiring_objects/c/logs/old", days(9), tags...)
	report := h.pass()
	expect(t, report, Report{Expired: 1})
	if report.Names != 4 || report.Left != 2*report.Partitions {
		t.Errorf("%+v: each name is read once, by the first replica of its partition", report)
	}
	h.has(false, "/a/c/logs/old ü?")
	for _, name := range []string{"/a/c/logs/new", "/a/c/logs/untagged", "/a/c/other", "/a/other/logs/old", "/.expiring_objects/c/logs/old"} {
		h.has(true, name)
	}
	if rows := h.containers.taken(); !slices.Equal(rows, []string{"logs/old ü? 1"}) || len(h.containers.updated) != replicas {
		t.Errorf("rows %q", h.containers.updated)
	}
	expect(t, h.pass(), Report{})
}

// A deletion is dated before now, so a write that is under way wins; and later than a minute ago, so that it does not count
// as old.
func TestStamp(t *testing.T) {
	for _, age := range []float64{0.00001, 0.5, 400} {
		since := days(age)
		got, at := stamp(since), now()
		if got.Compare(since) <= 0 || got.Compare(at) >= 0 || at.Ticks-got.Ticks > 61*format.TicksPerSecond {
			t.Errorf("%v for %v", got, since)
		}
	}
	future := now()
	future.Ticks += 1 << 40
	if got := stamp(future); got.Compare(future) <= 0 {
		t.Errorf("%v for %v", got, future)
	}
}

// A replica that has missed a write deletes nothing.
func TestReplicasThatDiffer(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Days: number(1), NoncurrentDays: number(1)}}, "x-container-sysmeta-versions-enabled", "true")
	h.put("/a/c/newer", days(9))
	h.ask(2, http.MethodPut, "/a/c/newer", days(1))
	h.put("/a/c/deleted", days(9))
	h.ask(1, http.MethodDelete, "/a/c/deleted", days(1))
	h.putVersion("/a/c/versions", days(9))
	h.putVersion("/a/c/versions", days(8))
	missed := days(0.1)
	h.ask(1, http.MethodPut, "/a/c/versions", missed, "X-Backend-Version-Id", missed.String())
	expect(t, h.pass(), Report{Changed: 3})
	if a := h.ask(0, http.MethodHead, "/a/c/newer", now()); a.StatusCode != 200 {
		t.Error(a.Status)
	}
}

// The next replica works on the partitions of one that is away, if more than half are there.
func TestReplicasThatAreAway(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Days: number(1)}})
	h.put("/a/c/one", days(9))
	h.put("/a/c/two", days(0.5))
	h.moveAway(0)
	expect(t, h.pass(1, 2), Report{Expired: 1})
	if a := h.ask(2, http.MethodHead, "/a/c/one", now()); a.StatusCode != 404 {
		t.Error(a.Status)
	}
	h.containers.set("/a/c", []Rule{{Date: number(0)}})
	h.moveAway(1)
	expect(t, h.pass(2), Report{Failures: 1})
	if a := h.ask(2, http.MethodHead, "/a/c/two", now()); a.StatusCode != 200 {
		t.Error(a.Status)
	}
}

// moveAway lets a device be one of a server that is not there.
func (h *host) moveAway(i int) {
	h.t.Helper()
	h.ports[i] = 1
	h.writeRing("object", h.port)
}

func TestVersions(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{NoncurrentDays: number(3), NewerVersions: number(2)}}, "x-container-sysmeta-versions-enabled", "true")
	h.put("/a/c/k", days(30))
	var all []format.Timestamp
	for n := range 6 {
		all = append(all, days(float64(20-n)))
		h.putVersion("/a/c/k", all[n])
	}
	h.putVersion("/a/c/new", days(2))
	h.putVersion("/a/c/new", days(1))
	expect(t, h.pass(), Report{Removed: 4}) // the null version and three others
	for n, at := range all {
		h.has(n >= 3, "/a/c/k", "X-Backend-Version-Id", at.String())
	}
	h.has(true, "/a/c/k")
	if rows := h.containers.taken(); len(rows) != 5 || len(h.containers.updated) != 5*replicas { // two of the null version
		t.Errorf("rows %q", h.containers.updated)
	}
	expect(t, h.pass(), Report{})
}

// Versions count as kept only if all replicas have them: this one may have missed that they were removed.
func TestVersionsThatAReplicaHasNot(t *testing.T) {
	h := newHost(t)
	rule := Rule{NewerVersions: number(2)}
	h.containers.set("/a/c", []Rule{rule}, "x-container-sysmeta-versions-enabled", "true")
	null := days(30)
	h.put("/a/c/k", null)
	var all []format.Timestamp
	for n := range 5 { // the last is current
		all = append(all, days(float64(20-n)))
		h.putVersion("/a/c/k", all[n])
	}
	remove := func(n int, devices ...int) {
		for _, i := range devices {
			a := h.ask(i, http.MethodDelete, "/a/c/k", days(1), "X-Backend-Version-Id", all[n].String())
			if a.StatusCode != 204 {
				t.Fatal(a.Status)
			}
		}
	}
	// The first replica, on which the job works, has missed the removals of two versions.
	remove(3, 1, 2)
	remove(2, 1, 2)
	expect(t, h.pass(), Report{Changed: 1})
	for _, n := range []int{0, 1, 4} {
		h.has(true, "/a/c/k", "X-Backend-Version-Id", all[n].String())
	}
	// One of the two others answers, and knows one of the removals.
	h.moveAway(2)
	remove(2, 0)
	expect(t, h.pass(0), Report{Changed: 1})
	h.ports = map[int]int{}
	h.writeRing("object", h.port)
	h.has(true, "/a/c/k", "X-Backend-Version-Id", all[0].String())
	// What does not depend on the count goes in any case.
	h.containers.set("/a/c", []Rule{rule, {NoncurrentDays: number(19)}}, "x-container-sysmeta-versions-enabled", "true")
	expect(t, h.pass(), Report{Changed: 1, Removed: 1})
	h.has(false, "/a/c/k", "X-Backend-Version-Id", null.String())
	h.has(true, "/a/c/k", "X-Backend-Version-Id", all[0].String())
}

// Also versions that another replica has missed, a delete marker among them, are waited for.
func TestVersionsThatAnotherReplicaHasMissed(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{NewerVersions: number(2)}}, "x-container-sysmeta-versions-enabled", "true")
	old, missed, marker := days(20), days(19), days(18)
	h.putVersion("/a/c/k", days(21))
	h.putVersion("/a/c/k", old)
	add := func(devices ...int) {
		for _, i := range devices {
			h.ask(i, http.MethodPut, "/a/c/k", missed, "X-Backend-Version-Id", missed.String())
			h.ask(i, http.MethodDelete, "/a/c/k", marker, "X-Backend-Version-Id", marker.String(), "X-Backend-Version-Marker", "true")
		}
	}
	add(0, 1)
	h.putVersion("/a/c/k", days(2))
	expect(t, h.pass(), Report{Changed: 1})
	h.has(true, "/a/c/k", "X-Backend-Version-Id", old.String())
	add(2)
	expect(t, h.pass(), Report{Removed: 2})
	h.has(false, "/a/c/k", "X-Backend-Version-Id", old.String())
	h.has(true, "/a/c/k", "X-Backend-Version-Id", missed.String())
}

// Removals of thousands of versions of a name are few requests.
func TestManyVersions(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{NoncurrentDays: number(3)}}, "x-container-sysmeta-versions-enabled", "true")
	const count = listMax + 200
	first := days(30)
	for n := range count {
		h.putVersion("/a/c/k", format.Timestamp{Ticks: first.Ticks + uint64(n)})
	}
	expect(t, h.pass(), Report{Removed: count - 1})
	h.has(true, "/a/c/k")
	h.has(false, "/a/c/k", "X-Backend-Version-Id", first.String())
	if got := strings.Count(h.log.String(), "method=DELETE"); got != 2*replicas {
		t.Errorf("%d requests", got)
	}
}

// A version that was made current again is not removed as an old one, and becomes hidden by a marker when it expires.
func TestCurrentVersions(t *testing.T) {
	h := newHost(t)
	versioned := []string{"x-container-sysmeta-versions-enabled", "true"}
	h.containers.set("/a/c", []Rule{{Days: number(5), NoncurrentDays: number(3)}}, versioned...)
	old, newer, restored := days(20), days(15), days(2)
	h.putVersion("/a/c/k", old)
	h.putVersion("/a/c/k", newer)
	for i := range replicas {
		if a := h.ask(i, http.MethodPut, "/a/c/k", restored, "X-Backend-Version-Restore", old.String()); a.StatusCode != 201 {
			t.Fatal(a.Status)
		}
	}
	h.putVersion("/a/c/expired", old)
	expect(t, h.pass(), Report{Expired: 1})
	h.has(true, "/a/c/k")
	h.has(false, "/a/c/expired")
	h.has(true, "/a/c/expired", "X-Backend-Version-Id", old.String())
	h.containers.set("/a/c", []Rule{{Prefix: "k", NoncurrentDays: number(1)}}, versioned...)
	expect(t, h.pass(), Report{Removed: 1})
	h.has(true, "/a/c/k")
	h.has(false, "/a/c/k", "X-Backend-Version-Id", newer.String())
}

func TestDeleteMarkers(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{DeleteMarkers: true}}, "x-container-sysmeta-versions-enabled", "true")
	marker := func(name string, at format.Timestamp) {
		for i := range replicas {
			h.ask(i, http.MethodDelete, name, at, "X-Backend-Version-Id", at.String(), "X-Backend-Version-Marker", "true")
		}
	}
	alone, above := days(2), days(1)
	marker("/a/c/alone", alone)
	h.putVersion("/a/c/above", days(3))
	marker("/a/c/above", above)
	expect(t, h.pass(), Report{Markers: 1})
	for i := range replicas {
		if a := h.ask(i, http.MethodHead, "/a/c/alone", now()); a.Header.Get("X-Backend-Version-Marker") != "" {
			t.Errorf("device %d: %v", i, a.Header)
		}
		if a := h.ask(i, http.MethodHead, "/a/c/above", now()); a.Header.Get("X-Backend-Version-Id") != above.String() {
			t.Errorf("device %d: %v", i, a.Header)
		}
	}
	expect(t, h.pass(), Report{})
}

// The rules of a container whose replicas differ are not carried out.
func TestRulesThatAreNotSure(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Days: number(1)}})
	h.put("/a/c/k", days(9))
	h.containers.set("d1/a/c", nil)
	expect(t, h.pass(), Report{Failures: 1})
	h.containers.set("d1/a/c", nil, "x-container-sysmeta-s3api-setting-lifecycle", "1:damaged")
	expect(t, h.pass(), Report{Failures: 1})
	h.has(true, "/a/c/k")
}

func TestUploads(t *testing.T) {
	h := newHost(t)
	rules := []Rule{{Prefix: "k", AbortDays: number(3)}}
	h.containers.set("/a/c", rules)
	h.containers.set("/a/c+segments", nil)
	begun := []string{"X-Object-Sysmeta-S3Api-Has-Content-Type", "no"}
	for _, id := range []string{"old", "done"} {
		h.put("/a/c+segments/k/"+id, days(9), begun...)
		h.put("/a/c+segments/k/"+id+"/1", days(9))
		h.put("/a/c+segments/k/"+id+"/2", days(8))
	}
	h.put("/a/c+segments/k/new", days(1), begun...)
	h.put("/a/c+segments/other/old", days(9), begun...)
	h.put("/a/c/k", days(7), "X-Object-Sysmeta-S3Api-Upload-Id", "done")
	h.containers.rows["/a/c+segments"] = []string{"k/done", "k/done/1", "k/done/2", "k/new", "k/old", "k/old/1", "k/old/2", "k/old/x"}
	expect(t, h.pass(), Report{Aborted: 2})
	h.has(true, "/a/c+segments/k/old/1") // it waits
	h.has(false, "/a/c+segments/k/old")
	h.backdate()
	expect(t, h.pass(), Report{Parts: 2})
	for name, want := range map[string]bool{
		"k/old/1": false, "k/old/2": false, "k/done/1": true, "k/done/2": true, "k/new": true, "other/old": true, "k/done": false,
	} {
		h.has(want, "/a/c+segments/"+name)
	}
	h.backdate()
	expect(t, h.pass(), Report{})
}

// A request to complete an upload that was sent twice makes two versions. The parts go with the last of them.
func TestPartsOfTwoVersions(t *testing.T) {
	for _, between := range []bool{false, true} {
		h := newHost(t)
		h.containers.set("/a/v", []Rule{{NoncurrentDays: number(3)}}, "x-container-sysmeta-versions-enabled", "true")
		h.put("/a/v+segments/k/one/1", days(20))
		h.containers.set("/a/v+segments", nil)
		h.containers.rows["/a/v+segments"] = []string{"k/one/1"}
		one := []string{"X-Object-Sysmeta-S3Api-Upload-Id", "one"}
		old, newer := days(19), days(10)
		h.put("/a/v/k", old, append(one, "X-Backend-Version-Id", old.String())...)
		h.put("/a/v/k", newer, append(one, "X-Backend-Version-Id", newer.String())...)
		if between { // it becomes old later than the rule says, so it is kept, too
			h.putVersion("/a/v/k", days(1))
		}
		expect(t, h.pass(), Report{Removed: 1})
		h.backdate()
		expect(t, h.pass(), Report{})
		h.has(true, "/a/v+segments/k/one/1")
		for i := range replicas {
			h.ask(i, http.MethodDelete, "/a/v/k", now(), "X-Backend-Version-Id", newer.String())
		}
		l, _ := h.lifecycle(0)
		d := l.deviceOf("d0", fmt.Sprint("127.0.0.1:", h.port))
		check(t, d.drop(context.Background(), &parts{upload{"a", "v", "k", "one"}, 0, time.Time{}}))
		h.has(false, "/a/v+segments/k/one/1")
	}
}

// The parts of an upload go with the object, or the version, that was made of it; and only then.
func TestPartsOfWhatHasExpired(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Prefix: "k", Days: number(3)}})
	h.containers.set("/a/v", []Rule{{NoncurrentDays: number(3)}}, "x-container-sysmeta-versions-enabled", "true")
	for _, name := range []string{"c+segments/k/one", "v+segments/k/old", "v+segments/k/new"} {
		container, key, _ := strings.Cut(name, "/")
		h.put("/a/"+name+"/1", days(20))
		h.containers.set("/a/"+container, nil)
		h.containers.rows["/a/"+container] = append(h.containers.rows["/a/"+container], key+"/1")
	}
	h.put("/a/c/k", days(9), "X-Object-Sysmeta-S3Api-Upload-Id", "one")
	old, newer := days(19), days(10)
	h.put("/a/v/k", old, "X-Backend-Version-Id", old.String(), "X-Object-Sysmeta-S3Api-Upload-Id", "old")
	h.put("/a/v/k", newer, "X-Backend-Version-Id", newer.String(), "X-Object-Sysmeta-S3Api-Upload-Id", "new")
	expect(t, h.pass(), Report{Expired: 1, Removed: 1})
	h.backdate()
	expect(t, h.pass(), Report{Parts: 2})
	h.has(false, "/a/c+segments/k/one/1")
	h.has(false, "/a/v+segments/k/old/1")
	h.has(true, "/a/v+segments/k/new/1")
	used := upload{"a", "v", "k", "new"}
	l, _ := h.lifecycle(0)
	d := l.deviceOf("d0", fmt.Sprint("127.0.0.1:", h.port))
	check(t, d.drop(context.Background(), &parts{used, 0, time.Time{}}))
	h.has(true, "/a/v+segments/k/new/1")
}

// backdate lets parts that wait have waited for long enough.
func (h *host) backdate() {
	h.t.Helper()
	for i := range replicas {
		path := filepath.Join(h.device(i), CursorFile)
		b, err := os.ReadFile(path)
		check(h.t, err)
		var c cursor
		check(h.t, json.Unmarshal(b, &c))
		for n := range c.Waiting {
			c.Waiting[n].Since = c.Waiting[n].Since.Add(-partsWait)
		}
		b, err = json.Marshal(c)
		check(h.t, err)
		check(h.t, os.WriteFile(path, b, 0o600))
	}
}

// A pass goes on where the last one was, and a new one begins when its time has come.
func TestPassesGoOn(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Days: number(1)}})
	for n := range 20 {
		h.put(fmt.Sprint("/a/c/", n), days(9))
	}
	l, _ := h.lifecycle(0)
	d := l.deviceOf("d0", fmt.Sprint("127.0.0.1:", h.port))
	all, err := d.units(nil)
	check(t, err)
	if len(all) < 4 {
		t.Fatalf("%d partitions", len(all))
	}
	b, err := json.Marshal(cursor{Format: cursorFormat, Pass: progress{Began: time.Now(), After: &all[len(all)-2]}})
	check(t, err)
	check(t, os.WriteFile(filepath.Join(h.device(0), CursorFile), b, 0o600))
	var report Report
	d.pass(context.Background(), false, &report)
	if report.Partitions != 1 || report.Expired == 0 {
		t.Errorf("%+v", report)
	}
	report = Report{}
	d.pass(context.Background(), false, &report) // the next one is not due
	if report != (Report{}) {
		t.Errorf("%+v", report)
	}
	d.state.Pass.Began = time.Now().Add(-2 * time.Hour)
	d.pass(context.Background(), false, &report)
	if report.Partitions != len(all) || report.Expired == 0 {
		t.Errorf("%+v", report)
	}
	text, err := os.ReadFile(filepath.Join(h.directory, "recon", "object.recon"))
	check(t, err)
	if !strings.Contains(string(text), fmt.Sprintf(`"expired":%d`, report.Expired)) && !strings.Contains(string(text), fmt.Sprintf(`"expired": %d`, report.Expired)) {
		t.Errorf("figures %s", text)
	}
}

// What a lock protects stays, and is counted. A marker may hide it.
func TestLocks(t *testing.T) {
	h := newHost(t)
	rules := []Rule{{Days: number(3), NoncurrentDays: number(3)}}
	h.containers.set("/a/c", rules)
	h.containers.set("/a/v", rules, "x-container-sysmeta-versions-enabled", "true")
	held := []string{"X-Backend-Lock-Hold", "on"}
	h.put("/a/c/k", days(9), held...)
	locked, free, last := days(20), days(19), days(18)
	h.put("/a/v/k", locked, append(held, "X-Backend-Version-Id", locked.String())...)
	h.putVersion("/a/v/k", free)
	h.put("/a/v/k", last, append(held, "X-Backend-Version-Id", last.String())...)
	expect(t, h.pass(), Report{Removed: 1, Expired: 1, Refused: 2})
	h.has(true, "/a/c/k")
	h.has(true, "/a/v/k", "X-Backend-Version-Id", locked.String())
	h.has(true, "/a/v/k", "X-Backend-Version-Id", last.String())
	h.has(false, "/a/v/k", "X-Backend-Version-Id", free.String())
	h.has(false, "/a/v/k")
}

// The size of an old version that is a large object is that of its segments.
func TestSizesOfOldVersions(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{NoncurrentDays: number(1), SmallerThan: number(1000)}}, "x-container-sysmeta-versions-enabled", "true")
	large, small := days(9), days(8)
	h.put("/a/c/k", large, "X-Backend-Version-Id", large.String(), "X-Object-Sysmeta-Slo-Size", "5000")
	h.putVersion("/a/c/k", small)
	h.putVersion("/a/c/k", days(7))
	expect(t, h.pass(), Report{Removed: 1})
	h.has(true, "/a/c/k", "X-Backend-Version-Id", large.String())
	h.has(false, "/a/c/k", "X-Backend-Version-Id", small.String())
}

// Tags that one replica has missed may be what keeps an object.
func TestReplicasWithOtherTags(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Days: number(1), Tags: map[string]string{"keep": "no"}}})
	tagging := "X-Object-Transient-Sysmeta-S3Api-Tagging"
	h.put("/a/c/k", days(9), tagging, "keep=no")
	for i := 1; i < replicas; i++ {
		if a := h.ask(i, http.MethodPost, "/a/c/k", days(8), tagging, "keep=yes"); a.StatusCode != 202 {
			t.Fatal(a.Status)
		}
	}
	expect(t, h.pass(), Report{Changed: 1})
	h.has(true, "/a/c/k")
}

// A version that was made current again became noncurrent when that ended, not when it was replaced for the first time.
func TestVersionThatWasCurrentAgain(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{NoncurrentDays: number(5)}}, "x-container-sysmeta-versions-enabled", "true")
	old, newer := days(20), days(15)
	h.putVersion("/a/c/k", old)
	h.putVersion("/a/c/k", newer)
	for i := range replicas {
		if a := h.ask(i, http.MethodPut, "/a/c/k", days(12), "X-Backend-Version-Restore", old.String()); a.StatusCode != 201 {
			t.Fatal(a.Status)
		}
	}
	h.putVersion("/a/c/k", days(1))
	expect(t, h.pass(), Report{Removed: 1})
	h.has(true, "/a/c/k", "X-Backend-Version-Id", old.String())
	h.has(false, "/a/c/k", "X-Backend-Version-Id", newer.String())
}

// A version that expired by itself was current until then, not until it was written.
func TestVersionThatExpiredByItself(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{NoncurrentDays: number(5)}}, "x-container-sysmeta-versions-enabled", "true")
	old, end := days(20), fmt.Sprint(time.Now().Unix()-2*86400)
	h.put("/a/c/k", old, "X-Backend-Version-Id", old.String(), "X-Delete-At", end)
	for i := range replicas {
		if a := h.ask(i, http.MethodDelete, "/a/c/k", days(1.9), "X-If-Delete-At", end); a.StatusCode != 204 {
			t.Fatal(a.Status)
		}
	}
	h.putVersion("/a/c/k", days(1))
	expect(t, h.pass(), Report{})
}

// Rules that were taken back while a pass goes on are carried out for a moment only.
func TestRulesThatChangeDuringAPass(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Days: number(1)}})
	l, _ := h.lifecycle(0)
	d := l.deviceOf("d0", fmt.Sprint("127.0.0.1:", h.port))
	d.buckets = map[string]*bucket{}
	ask := func() int {
		b, err := d.bucketOf(context.Background(), "a", "c")
		check(t, err)
		return len(b.rules)
	}
	if ask() != 1 {
		t.Error("no rule")
	}
	h.containers.set("/a/c", nil)
	if ask() != 1 {
		t.Error("it is asked again for each name")
	}
	d.buckets["a/c"].asked = time.Now().Add(-knownFor)
	if ask() != 0 {
		t.Error("the rule still counts")
	}
}

// Parts stay with an object that was not deleted, also if it is an old version by now.
func TestPartsOfWhatBecameOld(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{Days: number(3)}})
	h.containers.set("/a/c+segments", nil)
	h.containers.rows["/a/c+segments"] = []string{"k/one/1"}
	h.put("/a/c+segments/k/one/1", days(9))
	h.put("/a/c/k", days(9), "X-Object-Sysmeta-S3Api-Upload-Id", "one", "X-Backend-Lock-Hold", "on")
	for range 2 { // while it is current
		expect(t, h.pass(), Report{Refused: 1})
		h.has(true, "/a/c+segments/k/one/1")
		h.backdate()
	}
	expect(t, h.pass(), Report{Refused: 1})
	h.putVersion("/a/c/k", days(0.1))
	h.backdate()
	expect(t, h.pass(), Report{})
	h.has(true, "/a/c+segments/k/one/1")
}

// A replica that has missed a lock removes nothing either: its row in the container would not come back.
func TestLocksThatAReplicaHasMissed(t *testing.T) {
	h := newHost(t)
	h.containers.set("/a/c", []Rule{{NoncurrentDays: number(3)}}, "x-container-sysmeta-versions-enabled", "true",
		"x-container-sysmeta-object-lock", "on")
	held, retained, free := days(22), days(21), days(20)
	for _, at := range []format.Timestamp{held, retained, free, days(19)} {
		h.putVersion("/a/c/k", at)
	}
	until := now()
	until.Ticks += 86400 * format.TicksPerSecond
	for i := 1; i < replicas; i++ {
		h.ask(i, http.MethodPost, "/a/c/k", days(18), "X-Backend-Version-Id", held.String(), "X-Backend-Lock-Hold", "on")
		h.ask(i, http.MethodPost, "/a/c/k", days(18), "X-Backend-Version-Id", retained.String(), "X-Backend-Lock-Mode", "GOVERNANCE",
			"X-Backend-Lock-Until", until.String())
	}
	expect(t, h.pass(), Report{Removed: 1, Refused: 2})
	h.has(true, "/a/c/k", "X-Backend-Version-Id", held.String())
	h.has(true, "/a/c/k", "X-Backend-Version-Id", retained.String())
	h.has(false, "/a/c/k", "X-Backend-Version-Id", free.String())
}
