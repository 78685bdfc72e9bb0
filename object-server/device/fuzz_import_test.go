package device

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// importOptions leave nothing to be done in the background: an import alone writes.
var importOptions = Options{SpillBytes: modelSpill, compactByHand: true, Logger: quiet}

// importTarget is a device with names of every kind, and what it exports.
func importTarget(t testing.TB) (*vfs.Mem, []RawRecord) {
	m := &memory{t: t, fs: vfs.NewMem("/d")}
	m.device = open(t, m.fs, "/d", importOptions)
	for i, c := range []versionChange{
		{"put", 0, 10}, {"put", 0, 13}, {"put", 1, 20}, {"marker", 5, 30}, {"put", 2, 40}, {"remove", 2, 50}, {"put", 0, 12}, {"remove", 0, 60},
	} {
		name := modelNames[min(i, 2)] // plain, large, and with versions
		if i > 5 {
			name = modelNames[3] // large, and deleted
		}
		must[int](t)(0, doVersion(m.device, name, c))
	}
	must[int](t)(0, doVersion(m.device, modelNames[0], versionChange{"post", 0, 70}))
	var all []RawRecord
	for partition := range uint32(1 << modelBits) {
		_, err := m.device.Replica(0, partition).Export(bundle.Position{}, nil, func(r RawRecord) error {
			kept := RawRecord{Bytes: bytes.Clone(r.Bytes)}
			if r.Large != nil {
				kept.Large = inMemory(t, readAll(t, r.Large))
			}
			all = append(all, kept)
			return nil
		})
		must[int](t)(0, err)
	}
	must[int](t)(0, m.device.Close())
	return m.fs, all
}

func readAll(t testing.TB, f Large) []byte {
	p := make([]byte, must[int64](t)(f.Size()))
	must[int](t)(f.ReadAt(p, 0))
	return p
}

func inMemory(t testing.TB, p []byte) vfs.File {
	f := must[vfs.File](t)(vfs.NewMem("/p").Create("/p/large"))
	must[int](t)(0, f.Writev([][]byte{p}, 0))
	return f
}

// reproved gives a record the checksums and the signature that its bytes ask for, as a
// peer that means harm would.
func reproved(p []byte, large []byte) []byte {
	if len(p) < format.HeaderSize {
		return p
	}
	p = bytes.Clone(p)
	le := binary.LittleEndian
	seal := func() (format.Header, error) {
		le.PutUint32(p[124:], format.Checksum(p[:124]))
		return format.ParseHeader(p)
	}
	h, err := seal()
	parts := h.Layout()
	if err != nil || parts.Length > uint64(len(p)) {
		return p
	}
	data := large
	if h.HoldsData() {
		data = p[parts.Data:parts.Table]
	}
	copy(p[parts.Table:parts.End], format.AppendChunkTable(nil, data))
	le.PutUint32(p[96:], format.Checksum(p[format.HeaderSize:parts.Data]))
	proved := p[parts.Table:parts.End]
	if h.Type == format.TypeSpill {
		proved = p[parts.Data:parts.End]
	}
	le.PutUint32(p[100:], format.Checksum(proved))
	le.PutUint64(p[108:], h.SignatureOf(p[parts.Metadata:parts.Data]))
	_, _ = seal()
	return p
}

// state is what a partition has, and the files of the device.
type state struct {
	position bundle.Position
	digest   sethash.Digest
	files    string
}

func stateOf(t *testing.T, d *Device, fs vfs.FS, partition uint32) (s state) {
	var err error
	s.digest, s.position, err = d.Replica(0, partition).Digest(0, 0, format.Timestamp{})
	if err != nil {
		t.Fatal(err)
	}
	s.files = fmt.Sprint(filesBelow(t, fs, "/d/bundles")) // in the order of their names
	return s
}

// Whatever a peer sends as a record, and as its large file: nothing fails but the
// record, what is refused changes nothing, no length is believed before it is checked,
// and the partition is without damage and the same when it is opened again.
func FuzzImport(f *testing.F) {
	fs, all := importTarget(f)
	for _, r := range all {
		var large []byte
		if r.Large != nil {
			large = readAll(f, r.Large)
		}
		f.Add(r.Bytes, large, r.Large != nil, true)
		f.Add(r.Bytes[:len(r.Bytes)-format.UnitSize], large, true, false)
	}
	f.Fuzz(func(t *testing.T, record, large []byte, isLarge, isProved bool) {
		if isProved {
			record = reproved(record, large)
		}
		mem := fs.KillClone()
		d := open(t, mem, "/d", importOptions)
		partition := uint32(0)
		if len(record) >= format.HeaderSize {
			partition = format.Hash(record[24:40]).Bits(modelBits)
		}
		raw := RawRecord{Bytes: record}
		if isLarge {
			raw.Large = inMemory(t, large)
		}
		before := stateOf(t, d, mem, partition)
		var done []Imported
		var err error
		proof.Bounded(t, len(record)+len(large), func() { done, err = d.Replica(0, partition).Import([]RawRecord{raw}) })
		if err != nil && !errors.Is(err, ErrNoSpace) {
			t.Fatal(err)
		}
		after := stateOf(t, d, mem, partition)
		if !done[0].Stored && before != after {
			t.Fatalf("%v: %+v became %+v", done[0].Err, before, after)
		}
		if plan, err := d.Repair(0, partition, false); err != nil || len(plan.Damages) > 0 {
			t.Fatalf("%+v, %v", plan, err)
		}
		must[int](t)(0, d.Close())
		d = open(t, mem, "/d", importOptions)
		if again := stateOf(t, d, mem, partition); again.digest != after.digest {
			t.Fatalf("%+v, opened again %+v", after, again)
		}
		must[int](t)(0, d.Close())
	})
}
