package format

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// SpanMax bounds the LSNs of a segment: run entries keep 32 bits of them.
const SpanMax = 1<<32 - 1

// EntrySize is the size of a run's entry on disk.
const (
	EntrySize    = 48
	entryChecked = EntrySize - 2
)

// Entry says of one record where it lies. A run, in a CHECKPOINT or a SEAL,
// has one for every record that counts and has a name, sorted by hash and LSN.
//
//	0 hash 16 | signature 8 | which 8
//	32 LSN - base LSN of the segment 4 | unit 4 | units 4 | type 1 | flags 1 | check 2
//
// The check is the lower half of the checksum of what comes before it, for readers
// of one entry. A run is checked as a whole.
type Entry struct {
	Hash      Hash
	Signature uint64 // of the record; the TOMBSTONE of a null version has one that follows from name and time
	Which     uint64 // the mark of the version id; of the null version the ticks of a TOMBSTONE, else 0
	LSN       uint64
	Unit      uint32 // offset in the segment
	Units     uint32 // length
	Type      Type
	Flags     uint8 // bits 8-15 of the record's flags
}

// Entry is what a run says of the record, which lies at a unit of its segment.
func (h *Header) Entry(unit uint32) Entry {
	e := Entry{
		Hash: h.Hash, Signature: h.Signature, LSN: h.LSN, Unit: unit, Units: h.Units, Type: h.Type, Flags: uint8(h.Flags >> 8),
	}
	switch {
	case !h.VersionID.IsNull():
		e.Which = h.VersionID.mark()
	case h.Type == TypeTombstone:
		e.Signature, e.Which = h.signatureOfTombstone(), h.Timestamp.Ticks
	}
	return e
}

// isMark in Entry.Which tells the mark of a version id from ticks.
const isMark = 1 << 63

// mark tells the version ids of a name apart.
func (id VersionID) mark() uint64 {
	sum := sha256.Sum256(id[:])
	return binary.LittleEndian.Uint64(sum[:]) | isMark
}

// Version is equal for entries of one name if they are of the same version id; zero for
// the null version.
func (e *Entry) Version() uint64 {
	if e.Which&isMark == 0 {
		return 0
	}
	return e.Which
}

// signatureOfTombstone stands for the removal of a null version. It follows from name
// and time alone: a chain knows no more of one that is not its newest record.
func (h *Header) signatureOfTombstone() uint64 {
	b := append([]byte{byte(TypeTombstone)}, h.Hash[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.Timestamp.Ticks)
	b = binary.LittleEndian.AppendUint64(b, h.Timestamp.Offset)
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// IsChained tells whether the record is one of a chain of versions.
func (e *Entry) IsChained() bool { return e.Flags&(FlagVersions>>8) != 0 }

// Compare orders entries as runs do: by hash, then LSN.
func (e *Entry) Compare(f Entry) int {
	if c := bytes.Compare(e.Hash[:], f.Hash[:]); c != 0 {
		return c
	}
	return cmp.Compare(e.LSN, f.LSN)
}

// SortRun puts entries into the order of a run.
func SortRun(entries []Entry) {
	slices.SortFunc(entries, func(e, f Entry) int { return e.Compare(f) })
}

// ByUnit puts entries into the order in which the records lie.
func ByUnit(entries []Entry) {
	slices.SortFunc(entries, func(e, f Entry) int { return cmp.Compare(e.Unit, f.Unit) })
}

// AppendRun appends the encoded entries to b.
func AppendRun(b []byte, base uint64, entries []Entry) []byte {
	le := binary.LittleEndian
	for i := range entries {
		e := &entries[i]
		b = append(b, e.Hash[:]...)
		b = le.AppendUint64(b, e.Signature)
		b = le.AppendUint64(b, e.Which)
		b = le.AppendUint32(b, uint32(e.LSN-base))
		b = le.AppendUint32(b, e.Unit)
		b = le.AppendUint32(b, e.Units)
		b = append(b, byte(e.Type), e.Flags)
		b = le.AppendUint16(b, uint16(Checksum(b[len(b)-entryChecked:])))
	}
	return b
}

func decodeEntry(b []byte, base uint64) Entry {
	le := binary.LittleEndian
	return Entry{
		Hash: Hash(b[:16]), Signature: le.Uint64(b[16:]), Which: le.Uint64(b[24:]),
		LSN: base + uint64(le.Uint32(b[32:])), Unit: le.Uint32(b[36:]), Units: le.Uint32(b[40:]), Type: Type(b[44]), Flags: b[45],
	}
}

// ParseEntry decodes one entry and checks it by itself.
func ParseEntry(b []byte, base uint64) (Entry, error) {
	if uint16(Checksum(b[:entryChecked])) != binary.LittleEndian.Uint16(b[entryChecked:]) {
		return Entry{}, fmt.Errorf("%w: entry of a footer", ErrDamaged)
	}
	return decodeEntry(b, base), nil
}

// ParseRun decodes entries and appends them to run; ErrDamaged when they cannot
// be of a segment with that base LSN and length in bytes.
func ParseRun(run []Entry, b []byte, base uint64, size int64) ([]Entry, error) {
	run = slices.Grow(run, len(b)/EntrySize)
	for ; len(b) >= EntrySize; b = b[EntrySize:] {
		e := decodeEntry(b, base)
		if e.Unit < SegmentHeaderSize/UnitSize || e.Units < HeaderSize/UnitSize || (int64(e.Unit)+int64(e.Units))*UnitSize > size {
			return run, fmt.Errorf("%w: run entry out of bounds", ErrDamaged)
		}
		run = append(run, e)
	}
	if len(b) != 0 {
		return run, fmt.Errorf("%w: run is cut off", ErrDamaged)
	}
	return run, nil
}

// Sample says where one record in about every SampleBytes of a segment lies, so
// that a record is found by its LSN with one read.
//
//	0 LSN - base LSN of the segment 4 | unit 4
type Sample struct{ LSN, Unit uint32 }

const (
	sampleSize  = 8
	SampleBytes = 64 << 10
)

func appendSamples(b []byte, samples []Sample) []byte {
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint32(b, s.LSN)
		b = binary.LittleEndian.AppendUint32(b, s.Unit)
	}
	return b
}

// ParseSamples decodes samples; a part of one at the end is left out.
func ParseSamples(b []byte) []Sample {
	samples := make([]Sample, 0, len(b)/sampleSize)
	for ; len(b) >= sampleSize; b = b[sampleSize:] {
		samples = append(samples, Sample{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])})
	}
	return samples
}

// AddSample appends a sample for the record unless the last one is near.
func AddSample(samples []Sample, lsn, unit uint32) []Sample {
	if n := len(samples); n > 0 && (unit-samples[n-1].Unit)*UnitSize < SampleBytes {
		return samples
	}
	return append(samples, Sample{lsn, unit})
}

// SamplesOf makes the samples for entries in any order, and leaves them in that
// of the log.
func SamplesOf(entries []Entry, base uint64) []Sample {
	slices.SortFunc(entries, func(e, f Entry) int { return cmp.Compare(e.LSN, f.LSN) })
	var samples []Sample
	for i := range entries {
		samples = AddSample(samples, uint32(entries[i].LSN-base), entries[i].Unit)
	}
	return samples
}

// Checkpoint is the body of a CHECKPOINT: what the log holds of one segment
// between the place where the checkpoint before it ended and resume.
//
//	0 sequence 4 | unit of the checkpoint before 4 | resume 4 | reserved 4 | run
//
// The record's Previous is the last LSN before resume.
type Checkpoint struct {
	Sequence uint32
	Before   uint32 // unit; 0 if none
	Resume   uint32 // unit of the first record that the run does not cover
	Run      []byte
}

// Prefix encodes what precedes the run.
func (c *Checkpoint) Prefix() []byte {
	b := make([]byte, 0, checkpointPrefix)
	for _, n := range [...]uint32{c.Sequence, c.Before, c.Resume, 0} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

// ParseCheckpoint decodes the body of a CHECKPOINT, but for its run; ErrDamaged if it
// is cut off.
func ParseCheckpoint(b []byte) (Checkpoint, error) {
	if len(b) < checkpointPrefix {
		return Checkpoint{}, fmt.Errorf("%w: checkpoint is cut off", ErrDamaged)
	}
	le := binary.LittleEndian
	return Checkpoint{
		Sequence: le.Uint32(b), Before: le.Uint32(b[4:]), Resume: le.Uint32(b[8:]), Run: b[checkpointPrefix:],
	}, nil
}

// Seal is the footer of a segment that gets no more records: its run, samples,
// chunk table, and at the very end of the file the header of a SEAL record. The
// header's LSN is the last of the segment, Previous its base LSN, Versions the
// number of entries, the timestamp's ticks the horizon; the first four bytes of the
// version id are the last sequence that the segment stands for.
type Seal struct {
	Salt    uint32
	Base    uint64
	Last    uint64
	Through uint32
	Horizon uint64 // tombstones from before, in ticks, may have been reclaimed from the segment
	Units   uint32 // of the footer; not of what is to be encoded
	Count   uint32 // of entries; the same
	size    uint64 // of run and samples
	crc     uint32 // of the chunk table
}

// Encode returns the footer of a segment.
func (s *Seal) Encode(entries []Entry, samples []Sample) ([]byte, error) {
	size := len(entries)*EntrySize + len(samples)*sampleSize
	h := Header{
		Type: TypeSeal, LSN: s.Last, Previous: s.Base, Salt: s.Salt, Versions: uint32(len(entries)), Size: uint64(size),
		Timestamp: Timestamp{Ticks: s.Horizon},
	}
	binary.LittleEndian.PutUint32(h.VersionID[:], s.Through)
	parts := h.Layout()
	if parts.Length > sealSizeMax {
		return nil, fmt.Errorf("%w: footer of %d bytes", ErrTooLarge, parts.Length)
	}
	h.Units = uint32(parts.Length / UnitSize)
	b := make([]byte, 0, parts.Length)
	b = appendSamples(AppendRun(b, s.Base, entries), samples)
	table := AppendChunkTable(nil, b)
	h.DataCRC = Checksum(table)
	b = append(b, table...)
	b = b[:parts.Length]
	h.Encode(b[parts.Length-HeaderSize:])
	return b, nil
}

// ParseSeal reads the header at the end of a segment file; ErrDamaged when it is
// none.
func ParseSeal(b []byte) (Seal, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return Seal{}, err
	}
	le := binary.LittleEndian
	s := Seal{
		Salt: h.Salt, Base: h.Previous, Last: h.LSN, Through: le.Uint32(h.VersionID[:]), Units: h.Units,
		Horizon: h.Timestamp.Ticks, Count: h.Versions, size: h.Size, crc: h.DataCRC,
	}
	if h.Type != TypeSeal || s.Base == 0 || s.Last < s.Base-1 || uint64(s.Count)*EntrySize > s.size {
		return Seal{}, fmt.Errorf("%w: not a seal", ErrDamaged)
	}
	return s, nil
}

// Check compares the footer's bytes, without the header, with their checksums,
// and returns run and samples.
func (s *Seal) Check(b []byte) (run, samples []byte, err error) {
	end := s.size + 4*ChunkCount(s.size)
	if uint64(len(b)) < end || Checksum(b[s.size:end]) != s.crc {
		return nil, nil, fmt.Errorf("%w: seal's chunk table", ErrDamaged)
	}
	r := Record{Data: b[:s.size], Table: b[s.size:end]}
	if err := r.CheckData(); err != nil {
		return nil, nil, err
	}
	split := uint64(s.Count) * EntrySize
	return b[:split], b[split:s.size], nil
}
