package server

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// manyRows makes so many rows pending that a report waits, for a container server that is down.
func (f *unsavedFixture) manyRows(pending *updates.Pending) {
	f.t.Helper()
	at := updates.Target{Host: f.rows.Listener.Addr().String(), Device: "sdb", Partition: "5", Account: "a", Container: "c"}
	many := make([]updates.Update, pendingMax+1)
	for i := range many {
		many[i] = updates.Update{Target: at, Row: updates.Row{Name: fmt.Sprint(i), CreatedAt: moment(1)}}
	}
	if _, err := pending.Append(0, many); err != nil {
		f.t.Fatal(err)
	}
}

// A report waits while many rows are pending. What has become too old meanwhile is
// not made: the row of a later DELETE may have been reclaimed.
func TestAReportThatWaitsMakesNoOldRows(t *testing.T) {
	f, opened := newMendFixture(t, vfs.OS{})
	pending := f.server.devices.All()[0].Pending
	now := fmt.Sprintf("%.5f", float64(time.Now().UnixMicro())/1e6)
	got := f.do("PUT", objectPath, "hello", append(f.rows.headers(), "X-Timestamp", now, "Content-Type", "text/plain")...)
	if got.status != 201 {
		t.Fatal(got.status, got.body)
	}
	f.manyRows(pending)
	ended := make(chan bool, 1)
	go func() {
		ended <- f.server.report(t.Context(), "sda", opened.Undelivered(0), pending, time.Second) // rows of the last half second
	}()
	time.Sleep(time.Second)
	f.rows.down.Store(false)
	if !<-ended {
		t.Fatal("the report has failed")
	}
	text := ""
	for _, name := range f.pendingFiles(".pending") {
		content, _ := os.ReadFile(name)
		text += wholeFrames(content)
	}
	if strings.Contains(text, `"created_at":"`+now) {
		t.Error("a row is made that is older than reclaim_age")
	}
}

// A container server that stays down holds up no report: rows of others may be among those that are made.
func TestAReportEndsThoughManyRowsWait(t *testing.T) {
	f, opened := newMendFixture(t, vfs.OS{})
	pending := f.server.devices.All()[0].Pending
	f.manyRows(pending)
	before := pending.Count()
	ended := make(chan bool, 1)
	go func() {
		ended <- f.server.report(t.Context(), "sda", opened.Undelivered(0), pending, time.Hour*24*365*100)
	}()
	select {
	case isDone := <-ended:
		if made := pending.Count() - before; !isDone || made != 1 {
			t.Errorf("done %v, %d rows are made, want 1", isDone, made)
		}
	case <-time.After(time.Minute):
		t.Error("the report waits")
	}
}
