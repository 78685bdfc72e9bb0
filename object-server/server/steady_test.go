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
	f.rows.down.Store(false)
	pending := f.server.devices.All()[0].Pending
	for deadline := time.Now().Add(20 * time.Second); pending.Count() > 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	begun := opened.RowsBegun()
	if len(begun) != 1 || pending.Count() != 0 {
		t.Fatal(len(begun), pending.Count())
	}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(200 * time.Millisecond)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer slow.Close()
	at := updates.Target{Host: slow.Listener.Addr().String(), Device: "sdb", Partition: "5", Account: "a", Container: "c"}
	most := 0
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := pending.Append(0, []updates.Update{{Target: at}}); err != nil {
			t.Fatal(err)
		}
		most = max(most, pending.Count())
	}
	isThere := func(p device.RowPosition) bool { return p.Replica == begun[0].Replica }
	if slices.ContainsFunc(opened.RowsBegun(), isThere) {
		t.Errorf("after 6 s the row of the first write is not noted as delivered; at most %d rows waited at once", most)
	}
}
