package auditor

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"martlet/object-server/vfs"
)

// swiftFile is an object file of OpenStack Swift.
type swiftFile struct {
	name     string // of the file
	data     string
	metadata map[string]string
	isOld    bool // written by Python 2: text in place of bytes
	checksum string
}

// pickled is what pickle.dumps(metadata, protocol=2) writes.
func (f *swiftFile) pickled() []byte {
	b := []byte("\x80\x02}q\x00(")
	text := func(s string) {
		if f.isOld {
			b = append(append(b, 'U', byte(len(s))), s...)
			return
		}
		b = append(b, "c_codecs\nencode\nX"...)
		b = append(append(b, byte(len(s)), 0, 0, 0), s...)
		b = append(b, "X\x06\x00\x00\x00latin1\x86R"...)
	}
	for _, key := range slices.Sorted(maps.Keys(f.metadata)) {
		text(key)
		text(f.metadata[key])
	}
	return append(b, "u."...)
}

// store writes the file into the directory of the object /a/c/o. Metadata come in pieces, as long ones do.
func (f *swiftFile) store(t *testing.T, device string) {
	t.Helper()
	hash := md5.Sum([]byte("/a/c/ox"))
	text := hex.EncodeToString(hash[:])
	path := filepath.Join(device, "objects", "5", text[29:], text, f.name)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	write(t, path, f.data)
	file, err := vfs.OS{}.Open(path)
	check(t, err)
	defer file.Close()
	raw := f.pickled()
	if len(f.metadata) == 0 {
		return
	}
	for n, piece := range [][]byte{raw[:len(raw)/2], raw[len(raw)/2:]} {
		key := swiftXattr
		if n > 0 {
			key += fmt.Sprint(n)
		}
		if err := file.SetXattr(key, piece); errors.Is(err, vfs.ErrNoXattr) {
			t.Skip("the file system has no extended attributes")
		} else {
			check(t, err)
		}
	}
	if f.checksum != "" {
		check(t, file.SetXattr(swiftChecksumXattr, []byte(f.checksum)))
	}
}

func etagOf(data string) string {
	sum := md5.Sum([]byte(data))
	return hex.EncodeToString(sum[:])
}

// The files of OpenStack Swift on a device are checked as its own auditor does: names, sizes and ETags.
func TestFilesOfSwift(t *testing.T) {
	good := func(change func(f *swiftFile)) *swiftFile {
		f := &swiftFile{name: "1700000000.00000.data", data: "hello", metadata: map[string]string{
			"name": "/a/c/o", "Content-Length": "5", "ETag": etagOf("hello"), "X-Timestamp": "1700000000.00000",
		}}
		change(f)
		return f
	}
	h := newHost(t, 1, "")
	for what, c := range map[string]struct {
		file       *swiftFile
		full, fast int
	}{
		"good":                  {good(func(*swiftFile) {}), 0, 0},
		"good, of Python 2":     {good(func(f *swiftFile) { f.isOld = true }), 0, 0},
		"good checksum":         {good(func(f *swiftFile) { f.checksum = etagOf(string(f.pickled())) }), 0, 0},
		"bad checksum":          {good(func(f *swiftFile) { f.checksum = etagOf("") }), 1, 1},
		"another ETag":          {good(func(f *swiftFile) { f.data = "jello" }), 1, 0},
		"another size":          {good(func(f *swiftFile) { f.data = "hell" }), 1, 1},
		"another name":          {good(func(f *swiftFile) { f.metadata["name"] = "/a/c/p" }), 1, 1},
		"no name":               {good(func(f *swiftFile) { delete(f.metadata, "name") }), 1, 1},
		"no metadata":           {good(func(f *swiftFile) { f.metadata = nil }), 1, 1},
		"tombstone":             {good(func(f *swiftFile) { f.name, f.data = "1700000001.00000.ts", "" }), 0, 0},
		"tombstone of another":  {good(func(f *swiftFile) { f.name, f.metadata["name"] = "1700000001.00000.ts", "/a/c/p" }), 1, 1},
		"metadata without name": {good(func(f *swiftFile) { f.name = "1.meta"; delete(f.metadata, "name") }), 0, 0},
		"fragment":              {good(func(f *swiftFile) { f.name, f.data = "1700000000.00000#2#d.data", "jello" }), 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			check(t, os.RemoveAll(filepath.Join(h.device(1), "objects")))
			c.file.store(t, h.device(1))
			for kind, want := range map[Kind]int{Full: c.full, Fast: c.fast} {
				if r := h.once(kind); r.Damages != want || r.Objects != 1 || r.Failures+r.Refuted > 0 {
					t.Errorf("%v: %+v", kind, r)
				}
			}
		})
	}
}

// Metadata that are no pickle of a dict are damage, whatever they are.
func FuzzSwiftMetadata(f *testing.F) {
	f.Add((&swiftFile{metadata: map[string]string{"name": "/a/c/o"}}).pickled())
	f.Add([]byte("\x80\x02]q\x00."))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 {
			return
		}
		metadata, err := parseSwiftMetadata(raw)
		if err == nil && metadata == nil || err != nil && !errors.Is(err, errSwift) {
			t.Errorf("%v, %v", metadata, err)
		}
	})
}

// Units are audited in the order of the cursor.
func TestUnitsInOrder(t *testing.T) {
	all := []unit{{0, false, 1}, {0, false, 2}, {0, true, 1}, {1, false, 0}, {1, true, 9}}
	for i, u := range all {
		for k, o := range all {
			if got := u.compare(o); (got < 0) != (i < k) || (got > 0) != (i > k) {
				t.Errorf("%+v and %+v: %d", u, o, got)
			}
		}
	}
	h := newHost(t, 1, "")
	for _, u := range all[:3] {
		check(t, os.MkdirAll(filepath.Join(h.device(1), folder(u.Policy, u.IsSwift), fmt.Sprint(u.Partition)), 0o755))
	}
	check(t, os.MkdirAll(filepath.Join(h.device(1), "bundles", "x"), 0o755))
	a, _ := h.auditor()
	d := a.deviceOf("d1", "127.0.0.1:1")
	if got := d.units(nil, &Report{}); !slices.Equal(got, all[:3]) {
		t.Errorf("%+v", got)
	}
	if got := d.units(&all[1], &Report{}); !slices.Equal(got, all[2:3]) {
		t.Errorf("%+v", got)
	}
}

// Metadata as Python pickles them: text, and bytes.
func TestPicklesOfPython(t *testing.T) {
	for _, text := range []string{
		"80027d71002858040000006e616d65710158060000002f612f632f6f710258040000004554616771035802000000356471" + "04752e",
		"80027d710028635f636f646563730a656e636f64650a710158040000006e616d65710258060000006c6174696e317103867104527105680158060000002f612f" +
			"632f6f7106680386710752710868015804000000455461677109680386710a52710b6801580200000035647" + "10c680386710d52710e752e",
	} {
		raw, err := hex.DecodeString(text)
		check(t, err)
		metadata, err := parseSwiftMetadata(raw)
		if err != nil || !maps.Equal(metadata, map[string]string{"name": "/a/c/o", "ETag": "5d"}) {
			t.Errorf("%v, %v", metadata, err)
		}
	}
}
