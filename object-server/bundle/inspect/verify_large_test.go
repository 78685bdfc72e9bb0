package inspect

import (
	"fmt"
	"strings"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// A large file that went bad takes the records with it that share it, not those
// of other files.
func TestDamagedLargeFile(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	storeLarge(t, b, 1, 0x11, 0x11, nil)
	storeLarge(t, b, 1, 0x22, 0x22, nil)
	storeLarge(t, b, 1, 0x23, 0x22, nil) // a POST
	storeLarge(t, b, 2, 0x33, 0x33, nil)
	b.append(t, put(t, 3, 1))
	b.RemoveLarge(0x11) // replaced
	if v := wantClean(t, fs); v.LargeFiles != 2 || v.Records != 5 {
		t.Fatalf("%+v", v)
	}
	alter(t, fs, largePath(0x22), func(f vfs.File) { flip(t, f, format.ChunkSize+7) })
	v := verified(t, fs, logID)
	if len(v.Damages) != 1 || v.Damages[0].LargeID != 0x22 || v.Damages[0].FirstLSN != 3 || v.Damages[0].Lost[0].Name != "/a/c/1" {
		t.Fatalf("%+v", v.Damages)
	}
	original := contents(t, fs, largePath(0x22))
	plan := repaired(t, fs)
	if len(plan.Returns) != 0 || contents(t, fs, logAside+"/0000000000000022.data") != original {
		t.Errorf("%+v", plan.Returns)
	}
}

func TestMissingLargeFile(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	storeLarge(t, b, 1, 0x11, 0x11, nil)
	storeLarge(t, b, 2, 0x22, 0x22, nil)
	b.append(t, put(t, 3, 1))
	b.RemoveLarge(0x11)
	if v := verified(t, fs, logID); len(v.Damages) != 1 || !strings.Contains(v.Damages[0].Cause, "missing") {
		t.Fatalf("%+v", v.Damages)
	}
	repaired(t, fs)
	again := openLog(t, fs)
	if _, ok, err := find(again, name(1)); ok || err != nil {
		t.Error("the lost object:", ok, err)
	}
	if r, ok, err := find(again, name(2)); !ok || err != nil || r.LSN() != 2 {
		t.Error(r, ok, err)
	}
}

// The attributes of a large file are a copy: wrong ones are told and written
// anew, and nothing is lost.
func TestWrongAttributesOfALargeFile(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	storeLarge(t, b, 1, 0x11, 0x11, nil)
	alter(t, fs, largePath(0x11), func(f vfs.File) {
		check(t, bundle.WriteCopy(f, &format.Metadata{Name: "/a/c/another"}))
	})
	v := verified(t, fs, logID)
	if len(v.Damages) != 1 || v.Damages[0].LastLSN != 0 || !strings.Contains(v.Damages[0].String(), "/a/c/another") {
		t.Fatalf("%+v", v.Damages)
	}
	if plan := repaired(t, fs); len(plan.Rewrite) != 0 {
		t.Errorf("%+v", plan)
	}
	if r, ok, err := find(openLog(t, fs), name(1)); !ok || err != nil || r.LSN() != 1 {
		t.Error(r, ok, err)
	}
	alter(t, fs, largePath(0x11), func(f vfs.File) { check(t, f.RemoveXattr("user.martlet.metadata")) })
	none := fs.KillClone()
	none.Lack(vfs.FeatureXattr)
	wantClean(t, none)
	if v := verified(t, fs, logID); len(v.Damages) != 1 || v.Damages[0].LastLSN != 0 || !strings.Contains(v.Damages[0].Cause, "they are missing") {
		t.Errorf("%+v", v.Damages)
	}
	repaired(t, fs)
}

// The large file of each live version counts, that of a removed one does not.
func TestLargeFilesOfVersions(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	chained := func(change func(c *versions.Chain) (versions.Addition, error)) *versions.Addition {
		a, err := change(b.chain(t, 1))
		check(t, err)
		return &a
	}
	id := func(n uint64) format.VersionID { return format.VersionID{byte(n)} }
	for _, n := range []uint64{0x11, 0x22, 0x33} {
		storeLarge(t, b, 1, n, n, func(m *format.Metadata) *versions.Addition {
			m.VersionID, m.Versioned = id(n), true
			return chained(func(c *versions.Chain) (versions.Addition, error) { return c.Add(id(n), m.Timestamp) })
		})
	}
	gone := bundle.NewDraft(0)
	at := format.Timestamp{Ticks: 0x44}
	gone.Continue(chained(func(c *versions.Chain) (versions.Addition, error) { return c.Remove(id(0x22), at) }))
	check(t, gone.SealTombstone(name(1), &format.Metadata{Name: "/a/c/1", Timestamp: at, VersionID: id(0x22), Versioned: true}))
	b.append(t, gone)
	b.RemoveLarge(0x22)
	b.append(t, put(t, 3, 1))
	if v := wantClean(t, fs); v.LargeFiles != 2 {
		t.Fatalf("%+v", v)
	}
	var listed []string
	check(t, Objects(bundle.NewFiles(fs, "/d", 4), logID, true, func(o *Object) error {
		listed = append(listed, fmt.Sprintf("%s %s %d", o.Name, o.VersionID[:2], o.LSN))
		return nil
	}))
	if got := strings.Join(listed, ", "); got != "/a/c/1 33 3, /a/c/1 11 1, /a/c/3 00 5" {
		t.Error(got)
	}
	b.RemoveLarge(0x11)
	if v := verified(t, fs, logID); len(v.Damages) != 1 || v.Damages[0].LargeID != 0x11 || v.Damages[0].FirstLSN != 1 {
		t.Fatalf("%+v", v.Damages)
	}
}
