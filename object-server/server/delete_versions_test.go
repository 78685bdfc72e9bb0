package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// removeList asks to remove versions, and returns the statuses.
func (f *versionsFixture) removeList(at int, ids ...string) (statuses []int) {
	f.t.Helper()
	body, _ := json.Marshal(ids)
	got := f.send(200, "DELETE", string(body), at, "X-Backend-Version-List", "true")
	if err := json.Unmarshal([]byte(got.body), &statuses); err != nil {
		f.t.Fatal(err)
	}
	return statuses
}

func TestAListOfVersionsIsRemoved(t *testing.T) {
	f := newVersionsFixture(t)
	f.mustPut(objectPath, "null", moment(1))
	for n := 2; n < 8; n++ {
		f.putVersion(n, fmt.Sprint("version ", n))
	}
	f.rows.take(listingPath)
	// The current one and the null one are left, one was never there, one comes twice.
	statuses := f.removeList(20, moment(7), moment(1), moment(3), moment(15), moment(4), moment(3))
	if !slices.Equal(statuses, []int{409, 409, 204, 404, 204, 409}) {
		t.Errorf("statuses %v", statuses)
	}
	f.wantCurrent("version 7", moment(7))
	for n, want := range map[int]int{1: 200, 2: 200, 3: 404, 4: 404, 5: 200, 6: 200, 7: 200} {
		if got := f.do("GET", objectPath, "", versionHeader, moment(n)); got.status != want {
			t.Errorf("version %d: %d", n, got.status)
		}
	}
	rows := map[string]int{}
	for _, row := range f.rows.take(listingPath) {
		if row.Deleted != 1 || row.CreatedAt != moment(20) {
			t.Errorf("row %+v", row)
		}
		rows[row.VersionID]++
	}
	for _, id := range []string{moment(3), moment(4), moment(15)} {
		if rows[id] == 0 {
			t.Errorf("no row of %s: %v", id, rows)
		}
	}
	if len(rows) != 3 {
		t.Errorf("rows %v", rows)
	}
	f.send(404, "HEAD", "", 21, versionHeader, moment(15))
	f.send(409, "PUT", "late", 15, versionHeader, moment(15)) // it was removed before it came
}

func TestTheVersionThatWasMadeCurrentAgainIsNotRemovedByAList(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(1, "one")
	f.putVersion(2, "two")
	f.send(201, "PUT", "", 5, "X-Backend-Version-Restore", moment(1))
	if statuses := f.removeList(20, moment(1), moment(2)); !slices.Equal(statuses, []int{409, 204}) {
		t.Errorf("statuses %v", statuses)
	}
	f.wantCurrent("one", moment(1))
}

func TestListsOfVersionsThatAreRefused(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(1, "one")
	f.putVersion(2, "two")
	many, _ := json.Marshal(slices.Repeat([]string{moment(1)}, listedVersionsMax+1))
	for body, want := range map[string]int{
		"": 411, "[]": 400, "{}": 400, `["null"]`: 400, `["x"]`: 400, `[1]`: 400, `["` + moment(1) + `"`: 400, string(many): 400,
		strings.Repeat(" ", 70_000): 413,
	} {
		if got := f.do("DELETE", objectPath, body, "X-Timestamp", moment(9), "X-Backend-Version-List", "true"); got.status != want {
			t.Errorf("%.40s: %d %s", body, got.status, got.body)
		}
	}
	if got := f.do("DELETE", objectPath, `["`+moment(1)+`"]`, "X-Backend-Version-List", "true"); got.status != 400 {
		t.Errorf("without a timestamp: %d", got.status)
	}
	f.wantCurrent("two", moment(2))
	f.send(200, "HEAD", "", 9, versionHeader, moment(1))
}
