package device

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/device/journal"
	"martlet/object-server/vfs"
)

// filled is a device with objects of one partition, each written twice, and a peer that has the same.
func filled(t *testing.T, method SyncMethod) (mem *vfs.Mem, d, peer *Device, names []string) {
	t.Helper()
	mem = vfs.NewMem("/d")
	o := Options{SyncMethod: method, JournalBytes: journal.BytesMin, SpillBytes: 5000, compactByHand: true}
	d, peer = open(t, mem, "/d", o), open(t, vfs.NewMem("/d"), "/d", o)
	names = namesIn(0, 1, 12)
	for _, to := range []*Device{d, peer} {
		t.Cleanup(func() { _ = to.Close() })
		for ticks := range uint64(2) {
			for i, name := range names {
				must[State](t)(put(to, locate(name, 1), name, ticks+1, bodyOf(i, ticks+1)))
			}
		}
	}
	return mem, d, peer, names
}

// bodyOf is that of the object i; one of them is large.
func bodyOf(i int, ticks uint64) []byte {
	size := 3000
	if i == 2 {
		size = 9000
	}
	return body(uint64(i)+100*ticks, size)
}

// sendAll takes over all that a peer has.
func sendAll(t *testing.T, peer, d *Device) {
	t.Helper()
	if _, err := send(peer, d, 0, bundle.Position{}, keepOrder); err != nil {
		t.Fatal(err)
	}
}

// wantWhole checks that all is served as before, now and after a restart, and that no damage is left.
func wantWhole(t *testing.T, mem *vfs.Mem, d *Device, names []string) {
	t.Helper()
	for i, name := range names {
		if m := wantBody(t, d, locate(name, 1), bodyOf(i, 2)); m.Doubtful {
			t.Errorf("%s is in doubt", name)
		}
	}
	if all, _ := d.Damages(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	found, err := d.Examine(0, 0, plain)
	if len(found) > 0 || err != nil {
		t.Errorf("%+v, %v", found, err)
	}
}

// Damage that Examine finds is in the list, and ends when peers have given what is lost: data, metadata and headers of newest and
// older records, and of the very last one.
func TestExaminedAndMended(t *testing.T) {
	for _, method := range []SyncMethod{SyncAuto, SyncJournal} {
		for what, rot := range map[string]func(t *testing.T, mem *vfs.Mem, d *Device, names []string){
			"data of both records":   func(t *testing.T, mem *vfs.Mem, d *Device, names []string) { rotIn(t, mem, d, names[4], 600) },
			"data of the newest one": func(t *testing.T, mem *vfs.Mem, _ *Device, _ []string) { rotBytes(t, mem, bodyOf(4, 2)) },
			"headers":                func(t *testing.T, mem *vfs.Mem, d *Device, names []string) { rotIn(t, mem, d, names[4], -1) },
			"hash in the header": func(t *testing.T, mem *vfs.Mem, _ *Device, names []string) {
				rotHeader(t, mem, newestSegment(t, mem, 0), names[5])
			},
			"header of the last one": func(t *testing.T, mem *vfs.Mem, _ *Device, names []string) {
				rotHeader(t, mem, newestSegment(t, mem, 0), names[11])
			},
			"large file": func(t *testing.T, mem *vfs.Mem, _ *Device, _ []string) { rotLarge(t, mem) },
		} {
			t.Run(fmt.Sprint(method, what), func(t *testing.T) {
				mem, d, peer, names := filled(t, method)
				if found, err := d.Examine(0, 0, plain); len(found) > 0 || err != nil || len(d.Suspects()) > 0 {
					t.Fatalf("%+v, %v", found, err)
				}
				rot(t, mem, d, names)
				found, err := d.Examine(0, 0, plain)
				if len(found) == 0 || err != nil {
					t.Fatalf("%+v, %v", found, err)
				}
				if all := d.Suspects(); len(all) != 1 || all[0] != (Suspect{0, 0}) || len(d.Suspects()) != 0 {
					t.Errorf("%+v", all)
				}
				r := d.Replica(0, 0)
				isSure := true // what was damaged
				for i := range found {
					isSure = isSure && !found[i].IsGap
				}
				if err := r.Mend(false); !errors.Is(err, ErrQuarantined) {
					t.Fatalf("before anything was imported: %v", err)
				}
				if isSure {
					sendAll(t, peer, d)
				}
				if err := r.Mend(false); isSure != (err == nil) || err != nil && !errors.Is(err, ErrQuarantined) {
					t.Fatal(err)
				}
				must[int](t)(0, r.Mend(true))
				doubt := must[bundle.Position](t)(r.Doubt())
				if isSure != (doubt.LSN == 0) {
					t.Errorf("the doubt is %+v", doubt)
				}
				if !isSure {
					if _, err := d.Head(locate("/a/c/unknown", 0)); !errors.Is(err, ErrQuarantined) {
						t.Errorf("a name that is not there: %v", err)
					}
					sendAll(t, peer, d)
					must[int](t)(0, r.Heal(doubt, Compared{}))
				}
				wantWhole(t, mem, d, names)
			})
		}
	}
}

// rotLarge flips a byte of the only large file that counts.
func rotLarge(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	for file := range files(t, mem) {
		if strings.Contains(file, "/large/") {
			damage(t, mem, file, 777, 1, func(p []byte) { p[0] ^= 1 })
		}
	}
}

// A partition without damage, or that is not there, costs no rewrite.
func TestNothingToMend(t *testing.T) {
	mem, d, _, _ := filled(t, SyncAuto)
	before := newestSegment(t, mem, 0)
	for _, r := range []Replica{d.Replica(0, 0), d.Replica(0, 1), d.Replica(3, 5)} {
		must[int](t)(0, r.Mend(true))
	}
	if newestSegment(t, mem, 0) != before {
		t.Error("it was written anew")
	}
	for _, policy := range []int{0, 3} {
		if found, err := d.Examine(policy, 1, plain); len(found) > 0 || err != nil {
			t.Errorf("%+v, %v", found, err)
		}
	}
}

// The header of a record that is told of as a gap is what nothing is known of.
func TestGapsAreTold(t *testing.T) {
	mem, d, _, names := filled(t, SyncAuto)
	rotHeader(t, mem, newestSegment(t, mem, 0), names[3])
	rotIn(t, mem, d, names[4], 600)
	files := bundle.NewFiles(mem, "/d", 8)
	defer files.Close()
	found := must[*inspect.Verdict](t)(inspect.Verify(files, bundle.ID{}, ""))
	gaps := 0
	for i := range found.Damages {
		if found.Damages[i].IsGap {
			gaps++
		}
	}
	if gaps != 1 || len(found.Damages) != 3 {
		t.Errorf("%+v", found.Damages)
	}
}

// The data of an older version come from a peer as well.
func TestOlderVersionsAreMended(t *testing.T) {
	mem, d, peer, _ := filled(t, SyncAuto)
	name := namesIn(0, 1, 13)[12]
	l := locate(name, 1)
	for _, to := range []*Device{d, peer} {
		for n := range uint64(2) {
			u := must[*Upload](t)(to.NewUpload(l, 900))
			must[int](t)(u.Write(body(n, 900)))
			must[State](t)(u.Commit(&format.Metadata{Name: name, Size: 900, Timestamp: at(10 + n), VersionID: versionID(n + 1)}))
			u.Abort()
		}
	}
	rotIn(t, mem, d, name, 500)
	if found, err := d.Examine(0, 0, plain); len(found) != 2 || err != nil {
		t.Fatalf("%+v, %v", found, err)
	}
	sendAll(t, peer, d)
	must[int](t)(0, d.Replica(0, 0).Mend(false))
	for n := range uint64(2) {
		o := must[*Object](t)(d.OpenVersion(l, versionID(n+1)))
		var got bytes.Buffer
		must[int](t)(0, o.WriteRange(&got, 0, 900))
		if !bytes.Equal(got.Bytes(), body(n, 900)) {
			t.Errorf("version %d has other bytes", n+1)
		}
		o.Close()
	}
	if found, err := d.Examine(0, 0, plain); len(found) > 0 || err != nil {
		t.Errorf("%+v, %v", found, err)
	}
}

func plain(files vfs.FS) vfs.FS { return files }

// rotBytes flips a byte of the data of a record.
func rotBytes(t *testing.T, mem *vfs.Mem, data []byte) {
	t.Helper()
	segment := newestSegment(t, mem, 0)
	f := must[vfs.File](t)(mem.Open(segment))
	p := make([]byte, files(t, mem)[segment])
	must[int](t)(f.ReadAt(p, 0))
	must[int](t)(0, f.Close())
	at := bytes.Index(p, data)
	if at < 0 {
		t.Fatal("the data were not found")
	}
	damage(t, mem, segment, int64(at)+40, 1, func(p []byte) { p[0] ^= 1 })
}

// A record on a bad sector that a read meets comes from a peer as well, and then nothing lies there any more.
func TestABadSectorIsMended(t *testing.T) {
	const objects = 24
	mem, peer := vfs.NewMem("/d"), open(t, vfs.NewMem("/d"), "/d", Options{})
	defer peer.Close()
	first := open(t, mem, "/d", Options{})
	for _, to := range []*Device{first, peer} {
		for i := range objects {
			l, name := numbered(i)
			must[State](t)(put(to, l, name, 1, body(uint64(i), 700)))
		}
	}
	must[int](t)(0, first.Close())
	size := files(t, mem)["/d/bundles/7/00000001-0000.bundle"]
	for sector := int64(0); sector*512 < size-512; sector++ {
		var isBad atomic.Bool
		fs := vfs.NewBadSectors(mem.KillClone(), func(name string, from, to int64) bool {
			return isBad.Load() && strings.HasSuffix(name, "00000001-0000.bundle") && from < (sector+1)*512 && sector*512 < to
		})
		d := open(t, fs, "/d", Options{})
		r := d.Replica(0, 7)
		must[bundle.Position](t)(r.Position()) // it is open
		isBad.Store(true)
		for i := range objects {
			l, _ := numbered(i)
			_, _, _ = get(d, l) // what cannot be read is noted
		}
		_, _ = send(peer, d, 7, bundle.Position{}, keepOrder) // what has no header is refused
		if err := r.Mend(true); err != nil {
			t.Fatalf("sector %d: %v", sector, err)
		}
		if doubt := must[bundle.Position](t)(r.Doubt()); doubt.LSN > 0 {
			if _, err := send(peer, d, 7, bundle.Position{}, keepOrder); err != nil {
				t.Fatalf("sector %d: %v", sector, err)
			}
			must[int](t)(0, r.Heal(doubt, Compared{}))
		}
		for i := range objects {
			l, _ := numbered(i)
			wantBody(t, d, l, body(uint64(i), 700))
		}
		found, err := d.Examine(0, 7, plain)
		if all, _ := d.Damages(); len(found)+len(all) > 0 || err != nil {
			t.Errorf("sector %d: %+v, %+v, %v", sector, found, all, err)
		}
		must[int](t)(0, d.Close())
	}
}
