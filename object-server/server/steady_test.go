package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// Rows that wait a second or two each, all the time, do not keep it from being noted that the rows of an older write are delivered.
func TestDeliveredRowsAreNotedUnderSteadyPendingRows(t *testing.T) {
	f, opened := newMendFixture(t, vfs.OS{})
	pending := f.server.devices.All()[0].Pending
	begun := opened.RowsBegun()
	if len(begun) != 1 || pending.Count() == 0 {
		t.Fatal(len(begun), pending.Count())
	}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(200 * time.Millisecond)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer slow.Close()
	at := updates.Target{Host: slow.Listener.Addr().String(), Device: "sdb", Partition: "5", Account: "a", Container: "c"}
	isThere := func(p device.RowPosition) bool { return p.Replica == begun[0].Replica }
	most, end := 0, time.Now().Add(time.Minute)
	for slices.ContainsFunc(opened.RowsBegun(), isThere) {
		if time.Now().After(end) {
			t.Fatalf("the row of the first write is not noted as delivered; at most %d rows waited at once", most)
		}
		if _, err := pending.Append(0, []updates.Update{{Target: at}}); err != nil {
			t.Fatal(err)
		}
		f.rows.down.Store(false)
		most = max(most, pending.Count())
		time.Sleep(5 * time.Millisecond)
	}
}
