package device

import (
	"errors"
	"strings"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

const repairedName = "/a/c/heron"

// withoutVersion makes a device that had 12 versions of a name and was repaired
// after the data of one were damaged.
func withoutVersion(t *testing.T, lost uint64) (*Device, Location) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{}) // one segment, without checkpoints
	loc := locate(repairedName, modelBits)
	segment, end := "", int64(0)
	for n := range uint64(12) {
		if err := doVersion(d, repairedName, versionChange{"put", n, 10 + n}); err != nil {
			t.Fatal(err)
		}
		for file, size := range files(t, mem) {
			if n == lost && strings.HasSuffix(file, ".bundle") {
				segment, end = file, size
			}
		}
	}
	must[State](t)(put(d, Location{Partition: loc.Partition, Hash: format.Hash{1}}, "/a/c/o", 30, body(30, 300)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, mem, segment, end-128, 1, func(p []byte) { p[0] ^= 1 })
	plan, err := inspect.PlanRepair(bundle.NewFiles(mem, "/d", 8), bundle.ID{Partition: loc.Partition})
	if err != nil || len(plan.Damages) != 1 {
		t.Fatal(plan, err)
	}
	if err := plan.Run("/d/quarantined/objects/x"); err != nil {
		t.Fatal(err)
	}
	return openModel(t, mem), loc
}

// errorOf closes what was opened.
func errorOf(o *Object, err error) error {
	if err == nil {
		o.Close()
	}
	return err
}

// A version whose data were lost stays in quarantine after the repair of its
// partition, also as the newest, and comes back with the same write.
func TestLostVersionAfterRepair(t *testing.T) {
	for _, lost := range []uint64{0, 1, 7, 8, 11} {
		d, loc := withoutVersion(t, lost)
		for n := range uint64(12) {
			if err := errorOf(d.OpenVersion(loc, versionID(n))); (n == lost) != errors.Is(err, ErrQuarantined) || n != lost && err != nil {
				t.Errorf("without %d, version %d: %v", lost, n, err)
			}
		}
		if _, err := d.HeadVersion(loc, versionID(lost)); !errors.Is(err, ErrQuarantined) {
			t.Errorf("HEAD of %d: %v", lost, err)
		}
		if err := errorOf(d.Open(loc)); (lost == 11) != errors.Is(err, ErrQuarantined) {
			t.Errorf("without %d, the newest: %v", lost, err)
		}
		if err := doVersion(d, repairedName, versionChange{"put", lost, 10 + lost}); err != nil {
			t.Errorf("%d again: %v", lost, err)
		}
		page, err := d.ListVersions(loc, versions.Marker{}, 100)
		if err != nil || len(page.Versions) != 12 || page.Count != 12 {
			t.Errorf("without %d: %d of %d versions, %v", lost, len(page.Versions), page.Count, err)
		}
		for n := range uint64(12) {
			if err := errorOf(d.OpenVersion(loc, versionID(n))); err != nil {
				t.Errorf("%d is back, version %d: %v", lost, n, err)
			}
		}
		if err := errorOf(d.Open(loc)); err != nil {
			t.Errorf("%d is back, the newest: %v", lost, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
