package device

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/failpoint"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// rotOptions gives a device of a few KiB several segments, large files too.
var rotOptions = Options{SpillBytes: smallSpill, SegmentBytes: 4 << 10, Logger: quiet, compactByHand: true}

// smallDevice writes overwritten, posted and deleted names, small and large ones,
// and stops cleanly, so that everything is proven.
func smallDevice(t *testing.T, fs vfs.FS, root string) *model {
	m := newModel()
	d := open(t, fs, root, rotOptions)
	for i, c := range []change{
		{"put", modelNames[0], 1}, {"put", modelNames[1], 3}, {"put", modelNames[2], 4}, {"put", modelNames[3], 6},
		{"put", modelNames[0], 8}, {"post", modelNames[1], 10}, {"delete", modelNames[2], 11}, {"put", modelNames[1], 17},
		{"put", modelNames[3], 18}, {"post", modelNames[3], 19}, {"post", modelNames[1], 20}, {"put", modelNames[0], 21},
	} {
		c.ticks += smallTicks
		if err := m.do(d, c); err != nil {
			t.Fatal(i, err)
		}
		if i == 7 {
			if err := d.Compact(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d.Stats().Compactions == 0 {
		t.Fatal("no segment was compacted")
	}
	for _, b := range d.bundles.all() { // all footers are there, whether or not the caretaker came to it
		if err := d.caretaker.care(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return m
}

// Every single byte of a device may rot: what is shown is right, or in quarantine.
func TestEveryByteRots(t *testing.T) {
	mem := vfs.NewMem("/d")
	m := smallDevice(t, mem, "/d")
	step := int64(1)
	if raceDetector {
		step = 17
	}
	flips, quarantined := 0, 0
	for name, size := range files(t, mem) {
		for offset := int64(0); offset < size; offset += step {
			rotten, bits := mem.KillClone(), []byte{1, 2, 4, 8, 16, 32, 64, 128, 255}[offset%9]
			damage(t, rotten, name, offset, 1, func(p []byte) { p[0] ^= bits })
			flips++
			where := fmt.Sprintf("%s offset %d, bits %02x", name, offset, bits)
			if checkRottenAt(t, rotten, "/d", rotOptions, m, where) > 0 {
				quarantined++
			}
		}
	}
	t.Logf("%d flips, %d of them met", flips, quarantined)
	if quarantined*20 < flips {
		t.Fatal("flips are not found")
	}
}

// Every sector may be zero, or hold what belongs elsewhere: the next sector, the
// first of its file, or the same place of another file.
func TestEverySectorIsLostOrMisdirected(t *testing.T) {
	mem := vfs.NewMem("/d")
	m := smallDevice(t, mem, "/d")
	all := files(t, mem)
	cases, quarantined := 0, 0
	for name, size := range all {
		for offset := int64(0); offset < size; offset += 512 {
			for what, sector := range wrongSectors(t, mem, all, name, offset) {
				length := int(min(512, size-offset, int64(len(sector))))
				rotten := mem.KillClone()
				damage(t, rotten, name, offset, length, func(p []byte) { copy(p, sector) })
				where := fmt.Sprintf("%s offset %d shows %s", name, offset, what)
				cases++
				switch {
				case strings.HasSuffix(name, ".bundle") && size < 512+format.SegmentHeaderSize && what != "zeros": // as if moved by hand: no header is left whole
					checkHarmless(t, rotten, m, where, format.ErrUnsupported)
				default:
					quarantined += checkRottenAt(t, rotten, "/d", rotOptions, m, where)
				}
			}
		}
	}
	t.Logf("%d cases, %d times quarantined", cases, quarantined)
	if quarantined == 0 {
		t.Fatal("lost sectors are not found")
	}
}

// wrongSectors are what may stand in place of a sector.
func wrongSectors(t *testing.T, fs vfs.FS, all map[string]int64, name string, offset int64) map[string][]byte {
	t.Helper()
	wrong := map[string][]byte{"zeros": make([]byte, 512)}
	read := func(what, from string, at int64) {
		if at+512 > all[from] {
			return
		}
		f := must[vfs.File](t)(fs.Open(from))
		defer f.Close()
		p := make([]byte, 512)
		must[int](t)(f.ReadAt(p, at))
		wrong[what] = p
	}
	read("the next sector", name, offset+512)
	read("the first sector", name, 0)
	for other := range all {
		if other != name {
			read("the sector of "+other, other, offset)
		}
	}
	return wrong
}

// checkHarmless demands what must hold even where damage looks like a torn tail,
// or like a segment moved by hand: no bytes that were never written, and no
// error but the one allowed.
func checkHarmless(t *testing.T, fs vfs.FS, m *model, where string, allowed error) {
	t.Helper()
	d, err := Open(fs, "/d", rotOptions)
	if err != nil {
		t.Fatal(where, err)
	}
	defer d.Close()
	for _, name := range modelNames {
		v, err := observe(d, name)
		if err != nil && !errors.Is(err, allowed) && !errors.Is(err, ErrQuarantined) || v.ticks > m.acked[name].ticks {
			t.Fatalf("%s: %s shows %+v, %v", where, name, v, err)
		}
	}
}

// Killed processes, restarts and rotten bytes, on real file systems of every
// kind.
func TestEveryDisk(t *testing.T) {
	t.Parallel()
	proof.Disks(t, func(t *testing.T, root string) {
		for _, point := range failpoint.All {
			device := filepath.Join(root, string(point))
			if err := (vfs.OS{}).Mkdir(device); err != nil {
				t.Fatal(err)
			}
			checkKilled(t, device, killAt(t, device, point, 1, 2))
		}
		device := filepath.Join(root, "rot")
		if err := (vfs.OS{}).Mkdir(device); err != nil {
			t.Fatal(err)
		}
		rotOn(t, vfs.OS{}, device)
	})
}

// rotOn flips some bytes of a device on a real file system, and back.
func rotOn(t *testing.T, fs vfs.FS, root string) {
	m := smallDevice(t, fs, root)
	flips, quarantined := 0, 0
	for name, size := range filesOfRecords(t, fs, root) {
		for offset := int64(3); offset < size; offset += 997 {
			flip := func(p []byte) { p[0] ^= 1 << (offset % 8) }
			damage(t, fs, name, offset, 1, flip)
			quarantined += min(1, checkRottenAt(t, fs, root, rotOptions, m, fmt.Sprintf("%s offset %d", name, offset)))
			damage(t, fs, name, offset, 1, flip)
			flips++
		}
	}
	if n := checkRottenAt(t, fs, root, rotOptions, m, "all is repaired"); n > 0 || quarantined == 0 {
		t.Fatalf("%d of %d flips found; %d names are still in quarantine", quarantined, flips, n)
	}
}
