package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/device"
	"martlet/object-server/proof"
)

// inMemory is a large object.
type inMemory struct{ *bytes.Reader }

func (m inMemory) Size() (int64, error) { return m.Reader.Size(), nil }

func largeOf(text string) device.Large { return inMemory{bytes.NewReader([]byte(text))} }

// records are a stream, and the bytes of each record and of its large object.
func records(t testing.TB) (stream []byte, want [][2]string) {
	t.Helper()
	var b bytes.Buffer
	long := strings.Repeat("x", 3*copySize+1)
	for _, r := range [][2]string{{"one", "-"}, {long, "-"}, {"two", long}, {"three", ""}} {
		record := device.RawRecord{Bytes: []byte(r[0])}
		if r[1] != "-" {
			record.Large = largeOf(r[1])
		}
		proof.Check(t, WriteRecord(&b, record))
		want = append(want, r)
	}
	proof.Check(t, WriteEnd(&b, end))
	return b.Bytes(), want
}

var end = bundle.Exported{Position: bundle.Position{Bundle: format.Identity{1, 2}, LSN: 1<<40 + 7}, Skipped: 3}

func read(r *Reader, reads bool) (all [][2]string, err error) {
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		x := [2]string{string(record.Bytes), "-"}
		if record.Large != nil && reads {
			size, _ := record.Large.Size()
			b := make([]byte, size)
			if n, err := record.Large.ReadAt(b, 0); n < len(b) {
				return all, err
			}
			x[1] = string(b)
		}
		all = append(all, x)
	}
}

// A stream is read as it was written, whatever pieces it comes in, and whether large objects are read or not.
func TestAStreamOfRecords(t *testing.T) {
	stream, want := records(t)
	for _, reads := range []bool{true, false} {
		r := NewReader(iotest.HalfReader(bytes.NewReader(stream)))
		got, err := read(r, reads)
		proof.Check(t, err)
		for i := range got {
			if !reads {
				want[i][1] = "-"
			}
		}
		if !reflect.DeepEqual(got, want) || r.End() != end {
			t.Errorf("reads %v: %d records, %+v", reads, len(got), r.End())
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// Records stay as they are until they are freed, also behind others.
func TestRecordsThatAreKept(t *testing.T) {
	var b bytes.Buffer
	var want []string
	for i := range 1000 {
		text := strings.Repeat(string(rune('a'+i%26)), 1+i*i*i%100_000)
		want = append(want, text)
		proof.Check(t, WriteRecord(&b, device.RawRecord{Bytes: []byte(text)}))
	}
	proof.Check(t, WriteEnd(&b, end))
	r := NewReader(&b)
	for n := 0; n < len(want); r.Free() {
		var kept []device.RawRecord
		for range min(100, len(want)-n) {
			record, err := r.Next()
			proof.Check(t, err)
			kept = append(kept, record)
		}
		for _, record := range kept {
			if string(record.Bytes) != want[n] {
				t.Fatalf("record %d", n)
			}
			n++
		}
	}
}

// A stream that is cut anywhere is an error, and its records are those before the cut.
func TestACutStreamIsAnError(t *testing.T) {
	stream, want := records(t)
	for cut := range stream {
		if cut > 100 && cut%997 != 0 && cut < len(stream)-100 {
			continue
		}
		got, err := read(NewReader(bytes.NewReader(stream[:cut])), true)
		if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if len(got) > len(want) || !reflect.DeepEqual(got, append([][2]string(nil), want[:len(got)]...)) {
			t.Fatalf("cut at %d: %d records", cut, len(got))
		}
	}
}

// A length costs no memory before its bytes have come.
func TestALengthAloneTakesNoMemory(t *testing.T) {
	stream := append([]byte{0, 0, 0, 4}, bytes.Repeat([]byte{0xff}, 8)...) // 64 MiB
	proof.Bounded(t, 1<<20, func() {
		if _, err := read(NewReader(bytes.NewReader(stream)), true); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
	stream[3]++
	if _, err := read(NewReader(bytes.NewReader(stream)), true); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func TestStatesAndElements(t *testing.T) {
	state := State{
		IsKnown: true, Horizon: 9, Position: end.Position,
		Digest: sethash.Digest{Versions: sethash.Sum{Signatures: 1, Count: 2}, Tombstones: sethash.Sum{Signatures: 3, Count: 4}},
	}
	b := AppendState(AppendState(nil, &state), &State{})
	states, err := ParseStates(b, 2)
	if err != nil || !reflect.DeepEqual(states, []State{state, {}}) {
		t.Errorf("%+v %v", states, err)
	}
	b[0] = 2
	for _, bad := range [][]byte{b, b[:len(b)-1], nil} {
		if _, err := ParseStates(bad, 2); !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	}
	elements := []sethash.Element{{Hash: format.Hash{1}, Signature: 2, Deleted: 3}, {Hash: format.Hash{4}}}
	encoded := AppendElements(nil, elements)
	if got, err := ParseElements(encoded); err != nil || !reflect.DeepEqual(got, elements) {
		t.Errorf("%+v %v", got, err)
	}
	asked := []Asked{{7, 8}, {1<<32 - 1, 1<<64 - 1}}
	if got, err := ParseAsked(AppendAsked(AppendAsked(nil, asked[0]), asked[1])); err != nil || !reflect.DeepEqual(got, asked) {
		t.Errorf("%+v %v", got, err)
	}
	for _, parse := range []func([]byte) error{
		func(b []byte) error { _, err := ParseElements(b); return err },
		func(b []byte) error { _, err := ParseAsked(b); return err },
		func(b []byte) error { _, err := ParseHashes(b); return err },
	} {
		if err := parse(make([]byte, 13)); !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	}
}

// FuzzRecords reads any bytes as a stream of records: an error or an end, in bounded memory.
func FuzzRecords(f *testing.F) {
	stream, _ := records(f)
	f.Add(stream[:200])
	f.Add(stream[len(stream)-100:])
	f.Fuzz(func(t *testing.T, b []byte) {
		proof.Bounded(t, len(b)*8+1<<20, func() { _, _ = read(NewReader(bytes.NewReader(b)), false) })
	})
}

// Where records lie is read as it was written, and a cut is an error.
func TestLocated(t *testing.T) {
	entry := func(lsn uint64) format.Entry {
		return format.Entry{Hash: format.Hash{byte(lsn)}, Signature: 1, Which: 2, LSN: lsn, Unit: 64, Units: 8, Type: format.TypePut, Flags: 1}
	}
	want := []bundle.Located{{Sequence: 1, Generation: 2, Salt: 3, Base: 100}, {Sequence: 1<<32 - 1, Base: 1 << 40, Entries: []format.Entry{entry(1<<40 + 5)}}}
	for i := range uint64(3000) {
		want[0].Entries = append(want[0].Entries, entry(100+i))
	}
	var b bytes.Buffer
	proof.Check(t, WriteLocated(&b, want, end))
	got, done, err := ReadLocated(iotest.HalfReader(bytes.NewReader(b.Bytes())))
	if err != nil || done != end || !reflect.DeepEqual(got, want) {
		t.Errorf("%d segments, %+v, %v", len(got), done, err)
	}
	for cut := 0; cut < b.Len(); cut += 7 {
		if _, _, err := ReadLocated(bytes.NewReader(b.Bytes()[:cut])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	proof.Bounded(t, 1<<20, func() {
		if _, _, err := ReadLocated(bytes.NewReader(append([]byte{0, 0, 0x30, 0}, make([]byte, 100)...))); err == nil {
			t.Error("it was read")
		}
	})
}

// halfReadable is a large object with a bad sector.
type halfReadable struct{ inMemory }

func (h halfReadable) ReadAt(p []byte, offset int64) (int, error) {
	if offset > 0 {
		return 0, errors.New("bad sector")
	}
	return h.inMemory.ReadAt(p, offset)
}

// A large object that cannot be read to its end does not end the stream.
func TestABadSectorCostsNoOtherRecord(t *testing.T) {
	long := strings.Repeat("x", 2*copySize+1)
	var b bytes.Buffer
	proof.Check(t, WriteRecord(&b, device.RawRecord{Bytes: []byte("one"), Large: halfReadable{inMemory{bytes.NewReader([]byte(long))}}}))
	proof.Check(t, WriteRecord(&b, device.RawRecord{Bytes: []byte("two")}))
	proof.Check(t, WriteEnd(&b, end))
	want := [][2]string{{"one", long[:copySize] + strings.Repeat("\x00", copySize+1)}, {"two", "-"}}
	if got, err := read(NewReader(&b), true); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d records, %v", len(got), err)
	}
}
