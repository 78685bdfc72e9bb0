package server

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// rowText is a row in which a time that is missing is that of the data.
func rowText(row updates.Row) string {
	of := func(stamp *string) string {
		if stamp == nil {
			return row.CreatedAt
		}
		return *stamp
	}
	return fmt.Sprintf("%s %q %s %s %s %d %s %s %d %d", row.Name, row.VersionID, row.CreatedAt, of(row.ContentTypeTimestamp),
		of(row.MetaTimestamp), row.Size, row.ContentType, row.ETag, row.Deleted, row.PolicyIndex)
}

// lastWrites are the rows that a server would make of the device of f, had its process been killed now.
func (f *versionsFixture) lastWrites() map[string]bool {
	f.t.Helper()
	left := f.t.TempDir()
	if err := os.CopyFS(left, os.DirFS(filepath.Join(f.config.Devices, "sda"))); err != nil {
		f.t.Fatal(err)
	}
	opened, err := device.Open(vfs.OS{}, left, f.config.Device)
	if err != nil {
		f.t.Fatal(err)
	}
	defer opened.Close()
	rows := map[string]bool{}
	err = opened.Unreported().Visit(f.t.Context(), func(at device.Location, r *format.Record, m *format.Metadata) error {
		for _, update := range updatesOf(at, r, m) {
			if update.Target.Host != "" || update.Target.Account == "" || update.Target.Container == "" {
				f.t.Errorf("a row for %+v", update.Target)
			}
			rows[rowText(update.Row)] = true
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

// After each write a kill leaves the row of that write, and no row that no write has sent.
func TestRowsOfTheLastWritesAreThoseOfTheirRequests(t *testing.T) {
	sent := map[string]bool{}
	for _, steps := range [][]func(f *versionsFixture){
		{
			func(f *versionsFixture) { f.send(201, "PUT", "plain", 1) },
			func(f *versionsFixture) { f.send(202, "POST", "", 2, "X-Object-Meta-A", "b") },
			func(f *versionsFixture) {
				f.send(201, "PUT", "listed", 3, "X-Object-Sysmeta-Container-Update-Override-Etag", "other",
					"X-Object-Sysmeta-Container-Update-Override-Size", "77")
			},
			func(f *versionsFixture) { f.send(204, "DELETE", "", 4) },
		},
		{
			func(f *versionsFixture) { f.send(201, "PUT", "null", 1) },
			func(f *versionsFixture) { f.putVersion(2, "second") },
			func(f *versionsFixture) { f.putVersion(3, "third") },
			func(f *versionsFixture) { f.send(202, "POST", "", 4, "X-Object-Meta-A", "b") },
			func(f *versionsFixture) { f.send(201, "PUT", "", 5, "X-Backend-Version-Restore", moment(2)) },
			func(f *versionsFixture) {
				f.send(204, "DELETE", "", 6, "X-Backend-Version-Marker", "true", versionHeader, moment(6))
			},
			func(f *versionsFixture) { f.send(204, "DELETE", "", 7, versionHeader, moment(6)) },
			func(f *versionsFixture) { f.send(204, "DELETE", "", 8, versionHeader, moment(3)) },
		},
	} {
		f := newVersionsFixture(t)
		for number, step := range steps {
			step(f)
			of := map[string]bool{}
			for _, row := range f.rows.take(listingPath) {
				of[rowText(row)] = true
				sent[rowText(row)] = true
			}
			last := f.lastWrites()
			if len(of) == 0 || len(last) == 0 {
				t.Fatalf("step %d: %d rows are sent, %d are left", number, len(of), len(last))
			}
			for row := range of {
				if !last[row] {
					t.Errorf("step %d: no row %s of %v", number, row, last)
				}
			}
			for row := range last {
				if !sent[row] {
					t.Errorf("step %d: the row %s, which no write has sent", number, row)
				}
			}
		}
	}
}

// A version that was moved to another policy stays listed: no request sends a row of the removal of a move.
func TestARemovalOfAMoveIsNotReported(t *testing.T) {
	for _, id := range []format.VersionID{{}, {1}} {
		m := &format.Metadata{Name: "/a/c/o", VersionID: id, Timestamp: format.Timestamp{Ticks: 10, Offset: 1}}
		m.MarkMoved()
		record := new(format.Record)
		record.Head.Type, record.Head.VersionID = format.TypeTombstone, id
		if all := updatesOf(device.Location{Policy: 1}, record, m); len(all) != 0 {
			t.Errorf("version %v: %+v", id, all)
		}
	}
}
