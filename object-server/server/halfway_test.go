package server

import (
	"sync/atomic"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/updates"
)

// halfwayStore takes the first record of a request, and not the second.
type halfwayStore struct {
	devices.Store
	isFull *atomic.Bool
}

func (s halfwayStore) DeleteMarker(at device.Location, t format.Timestamp, id format.VersionID, name string) error {
	if s.isFull.Load() {
		return device.ErrNoSpace
	}
	return s.Store.DeleteMarker(at, t, id, name)
}

func (s halfwayStore) NewUpload(at device.Location, sizeHint int64) (devices.Upload, error) {
	if s.isFull.Load() && sizeHint == 0 {
		return nil, device.ErrNoSpace
	}
	return s.Store.NewUpload(at, sizeHint)
}

// A record that a request has written has its row, though the request fails at the next one: it is not made again after a
// crash, once it is noted how far the rows of the partition go.
func TestRowsOfARequestThatFailsHalfway(t *testing.T) {
	for name, test := range map[string]struct {
		before, fails func(f *versionsFixture)
		want          string
	}{
		"a late version": {
			func(f *versionsFixture) { f.send(404, "DELETE", "", 5) },
			func(f *versionsFixture) { f.send(507, "PUT", "late", 1, versionHeader, moment(1)) },
			moment(1),
		},
		"a null version is kept": {
			func(f *versionsFixture) {
				f.send(201, "PUT", "null", 1)
				f.putVersion(2, "second")
			},
			func(f *versionsFixture) { f.send(507, "PUT", "", 5, message.VersionRestore.Name(), "null") },
			moment(1),
		},
	} {
		f, isFull := newVersionsFixture(t), new(atomic.Bool)
		open := f.open
		f.open = func(path string) (devices.Store, *updates.Pending, error) {
			opened, pending, err := open(path)
			return halfwayStore{opened, isFull}, pending, err
		}
		test.before(f)
		f.rows.take(listingPath)
		isFull.Store(true)
		test.fails(f)
		found := false
		for _, row := range f.rows.take(listingPath) {
			found = found || row.CreatedAt == test.want && row.Deleted == 0 && row.VersionID != ""
		}
		if !found {
			t.Errorf("%s: it is stored, and has no row", name)
		}
	}
}
