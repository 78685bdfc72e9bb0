package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"regexp"
	"testing"

	"martlet/object-server/proof"
)

const (
	bundlePage   = "../../../doc/formats/bundle.md"
	versionsPage = "../../../doc/formats/versions.md"
)

// The bytes of every field, all different from zero.
var (
	full16 = [16]byte(bytes.Repeat([]byte{0xff}, 16))
	times  = Timestamp{Ticks: math.MaxUint64, Offset: math.MaxUint64}
)

// of encodes a value for each field of a table.
func of[T any](encode func(x *T) []byte, set map[string]func(x *T)) (plain []byte, all map[string][]byte) {
	all = make(map[string][]byte)
	for name, change := range set {
		x := new(T)
		change(x)
		all[name] = encode(x)
	}
	return encode(new(T)), all
}

func TestPageOfTheSegmentHeader(t *testing.T) {
	l := proof.ReadLayout(t, bundlePage, "## Segment header")
	plain, set := of((*SegmentHeader).Encode, map[string]func(h *SegmentHeader){
		"flags":      func(h *SegmentHeader) { h.Flags = math.MaxUint16 },
		"policy":     func(h *SegmentHeader) { h.Policy = math.MaxUint32 },
		"partition":  func(h *SegmentHeader) { h.Partition = math.MaxUint32 },
		"sequence":   func(h *SegmentHeader) { h.Sequence = math.MaxUint32 },
		"generation": func(h *SegmentHeader) { h.Generation = math.MaxUint32 },
		"uuid":       func(h *SegmentHeader) { h.UUID = full16 },
		"base LSN":   func(h *SegmentHeader) { h.BaseLSN = math.MaxUint64 },
		"created":    func(h *SegmentHeader) { h.Created = math.MaxUint64 },
		"through":    func(h *SegmentHeader) { h.Through = math.MaxUint32 },
		"part power": func(h *SegmentHeader) { h.Power = math.MaxUint8 },
		"bundle":     func(h *SegmentHeader) { h.Bundle = full16 },
		"frontier":   func(h *SegmentHeader) { h.Frontier = math.MaxUint32 },
	})
	l.Check(t, plain, set, "magic", "version", "header CRC")
	wantCRC(t, l, plain)
}

// wantCRC demands that a header of 128 bytes ends in the CRC over the others.
func wantCRC(t *testing.T, l *proof.Layout, header []byte) {
	t.Helper()
	if crc := binary.LittleEndian.Uint32(l.Of(t, "header CRC", header)); crc != Checksum(header[:124]) {
		t.Errorf("the CRC is %x", crc)
	}
}

func TestPageOfTheRecordHeader(t *testing.T) {
	l := proof.ReadLayout(t, bundlePage, "## Record: header")
	encode := func(h *Header) []byte {
		b := make([]byte, HeaderSize)
		h.Encode(b)
		return b
	}
	plain, set := of(encode, map[string]func(h *Header){
		"type":             func(h *Header) { h.Type = math.MaxUint8 },
		"flags":            func(h *Header) { h.Flags = math.MaxUint16 },
		"LSN":              func(h *Header) { h.LSN = math.MaxUint64 },
		"salt":             func(h *Header) { h.Salt = math.MaxUint32 },
		"length":           func(h *Header) { h.Units = math.MaxUint32 },
		"object hash":      func(h *Header) { h.Hash = full16 },
		"version id":       func(h *Header) { h.VersionID = full16 },
		"timestamp":        func(h *Header) { h.Timestamp.Ticks = math.MaxUint64 },
		"timestamp offset": func(h *Header) { h.Timestamp.Offset = math.MaxUint64 },
		"previous version": func(h *Header) { h.Previous = math.MaxUint64 },
		"version count":    func(h *Header) { h.Versions = math.MaxUint32 },
		"metadata length":  func(h *Header) { h.MetadataLength = math.MaxUint32 },
		"object size":      func(h *Header) { h.Size = math.MaxUint64 },
		"metadata CRC":     func(h *Header) { h.MetadataCRC = math.MaxUint32 },
		"data CRC":         func(h *Header) { h.DataCRC = math.MaxUint32 },
		"flush distance":   func(h *Header) { h.Distance = math.MaxUint32 },
		"signature":        func(h *Header) { h.Signature = math.MaxUint64 },
		"checkpoint":       func(h *Header) { h.Checkpoint = math.MaxUint32 },
		"block length":     func(h *Header) { h.BlockLength = math.MaxUint32 },
	})
	l.Check(t, plain, set, "magic", "version", "header CRC")
	wantCRC(t, l, plain)
}

func TestPageOfTheTypes(t *testing.T) {
	page, err := os.ReadFile(bundlePage)
	check(t, err)
	rows := regexp.MustCompile(`(?m)^\| (\d) \| ([A-Z ]+) \|`).FindAllSubmatch(page, -1)
	for i, row := range rows {
		if typ := Type(i + 1); string(row[1]) != fmt.Sprint(i+1) || string(row[2]) != typ.String() {
			t.Errorf("type %d is %s, the page says %s", i+1, typ, row[0])
		}
	}
	if len(rows) != int(TypePad) {
		t.Errorf("%d types", len(rows))
	}
}

func TestPageOfRuns(t *testing.T) {
	l := proof.ReadLayout(t, bundlePage, "### Runs")
	plain, set := of(func(e *Entry) []byte { return AppendRun(nil, 0, []Entry{*e}) }, map[string]func(e *Entry){
		"object hash":                   func(e *Entry) { e.Hash = full16 },
		"signature":                     func(e *Entry) { e.Signature = math.MaxUint64 },
		"which":                         func(e *Entry) { e.Which = math.MaxUint64 },
		"LSN − base LSN of the segment": func(e *Entry) { e.LSN = math.MaxUint32 },
		"offset in the segment":         func(e *Entry) { e.Unit = math.MaxUint32 },
		"length in units":               func(e *Entry) { e.Units = math.MaxUint32 },
		"type of the record":            func(e *Entry) { e.Type = math.MaxUint8 },
		"bits 8–15 of its flags":        func(e *Entry) { e.Flags = math.MaxUint8 },
	})
	const crc = "lower half of the CRC over bytes 0–45"
	l.Check(t, plain, set, crc)
	if got := binary.LittleEndian.Uint16(l.Of(t, crc, plain)); got != uint16(Checksum(plain[:46])) {
		t.Errorf("the CRC is %x", got)
	}
	sample := proof.ReadLayout(t, bundlePage, "A *sample* says")
	encode := func(s *Sample) []byte { return appendSamples(nil, []Sample{*s}) }
	plain, set = of(encode, map[string]func(s *Sample){
		"LSN − base LSN of the segment": func(s *Sample) { s.LSN = math.MaxUint32 },
		"offset in the segment":         func(s *Sample) { s.Unit = math.MaxUint32 },
	})
	sample.Check(t, plain, set)
}

func TestPageOfCheckpoints(t *testing.T) {
	l := proof.ReadLayout(t, bundlePage, "**CHECKPOINT.**")
	plain, set := of((*Checkpoint).Prefix, map[string]func(c *Checkpoint){
		"sequence of the segment it is about": func(c *Checkpoint) { c.Sequence = math.MaxUint32 },
		"offset of the checkpoint before it":  func(c *Checkpoint) { c.Before = math.MaxUint32 },
		"offset where the run ends":           func(c *Checkpoint) { c.Resume = math.MaxUint32 },
	})
	l.Check(t, plain, set)
}

// The header of a SEAL is that of a record, of which some fields mean something else.
func TestPageOfSeals(t *testing.T) {
	l := proof.ReadLayout(t, bundlePage, "**SEAL.**")
	header := func(s *Seal) []byte {
		b, err := s.Encode(nil, nil)
		check(t, err)
		return b[len(b)-HeaderSize:]
	}
	plain, set := of(header, map[string]func(s *Seal){
		"last LSN of the segment": func(s *Seal) { s.Last = math.MaxUint64 },
		"salt":                    func(s *Seal) { s.Salt = math.MaxUint32 },
		"last sequence that the segment stands for": func(s *Seal) { s.Through = math.MaxUint32 },
		"horizon":  func(s *Seal) { s.Horizon = math.MaxUint64 },
		"base LSN": func(s *Seal) { s.Base = math.MaxUint64 },
	})
	l.Check(t, plain, set, "magic", "version", "type", "length of the whole footer",
		"entries of the run", "bytes of run and samples", "data CRC", "header CRC")
	wantCRC(t, l, plain)
	entries := []Entry{{Hash: Hash{1}, LSN: 1, Type: TypePut}, {Hash: Hash{2}, LSN: 2, Type: TypePut}}
	footer, err := (&Seal{}).Encode(entries, []Sample{{}})
	check(t, err)
	b, le := footer[len(footer)-HeaderSize:], binary.LittleEndian
	if n := le.Uint32(l.Of(t, "length of the whole footer", b)); int(n)*UnitSize != len(footer) {
		t.Errorf("%d units, %d bytes", n, len(footer))
	}
	if n := le.Uint32(l.Of(t, "entries of the run", b)); n != 2 {
		t.Errorf("%d entries", n)
	}
	if n := le.Uint64(l.Of(t, "bytes of run and samples", b)); n != 2*EntrySize+sampleSize {
		t.Errorf("%d bytes", n)
	}
}

func TestPageOfVersionBlocks(t *testing.T) {
	l := proof.ReadLayout(t, versionsPage, "| offset | size | field | meaning |")
	plain, set := of(func(x *Block) []byte { return x.Append(nil) }, map[string]func(x *Block){
		"newest LSN":        func(x *Block) { x.Newest.LSN = math.MaxUint64 },
		"newest timestamp":  func(x *Block) { x.Newest.Timestamp = times },
		"newest version id": func(x *Block) { x.Newest.ID = full16 },
		"null LSN":          func(x *Block) { x.Null.LSN = math.MaxUint64 },
		"null timestamp":    func(x *Block) { x.Null.Timestamp = times },
		"next":              func(x *Block) { x.Next = math.MaxUint64 },
		"bound":             func(x *Block) { x.Bound = times },
		"entries":           func(x *Block) { x.Entries = math.MaxUint32 },
	})
	l.Check(t, plain, set, "flags")
	for _, x := range []struct {
		Block
		flags uint32
	}{{Block{NullLives: true}, 1}, {Block{Gap: true}, 2}, {Block{Cut: true}, 4}} {
		if flags := binary.LittleEndian.Uint32(l.Of(t, "flags", x.Append(nil))); flags != x.flags {
			t.Errorf("%+v: flags %d", x.Block, flags)
		}
	}
}
