package bundle

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// runEntrySize is the size of a run's entry on disk.
const (
	runEntrySize = 32
	entryChecked = runEntrySize - 2
)

// runEntry says of one record where it lies. A run, in a CHECKPOINT or a SEAL,
// has one for every record that counts and has a name, sorted by hash and LSN.
//
//	0 hash 16 | LSN - base LSN of the segment 4 | unit 4 | units 4 | type 1 | flags 1 | check 2
//
// The check is the lower half of the checksum of what comes before it, for readers
// of one entry. A run is checked as a whole.
type runEntry struct {
	Hash  Hash
	LSN   uint64
	Unit  uint32 // offset in the segment
	Units uint32 // length
	Type  Type
	Flags uint8 // bits 8-15 of the record's flags
}

func (h *header) runEntry(unit uint32) runEntry {
	return runEntry{Hash: h.Hash, LSN: h.LSN, Unit: unit, Units: h.Units, Type: h.Type, Flags: uint8(h.Flags >> 8)}
}

// isChained tells whether the record is one of a chain of versions.
func (e *runEntry) isChained() bool { return e.Flags&(flagVersions>>8) != 0 }

// named tells whether records of the type are found by a name.
func (t Type) named() bool { return t != TypePad && t != TypeCheckpoint && t != TypeSeal }

func (e *runEntry) compare(f runEntry) int {
	if c := bytes.Compare(e.Hash[:], f.Hash[:]); c != 0 {
		return c
	}
	return cmp.Compare(e.LSN, f.LSN)
}

func sortRun(entries []runEntry) {
	slices.SortFunc(entries, func(e, f runEntry) int { return e.compare(f) })
}

// appendRun appends the encoded entries to b.
func appendRun(b []byte, base uint64, entries []runEntry) []byte {
	le := binary.LittleEndian
	for i := range entries {
		e := &entries[i]
		b = append(b, e.Hash[:]...)
		b = le.AppendUint32(b, uint32(e.LSN-base))
		b = le.AppendUint32(b, e.Unit)
		b = le.AppendUint32(b, e.Units)
		b = append(b, byte(e.Type), e.Flags)
		b = le.AppendUint16(b, uint16(checksum(b[len(b)-entryChecked:])))
	}
	return b
}

func decodeEntry(b []byte, base uint64) runEntry {
	le := binary.LittleEndian
	return runEntry{
		Hash: Hash(b[:16]), LSN: base + uint64(le.Uint32(b[16:])), Unit: le.Uint32(b[20:]),
		Units: le.Uint32(b[24:]), Type: Type(b[28]), Flags: b[29],
	}
}

// parseEntry decodes one entry and checks it by itself.
func parseEntry(b []byte, base uint64) (runEntry, error) {
	if uint16(checksum(b[:entryChecked])) != binary.LittleEndian.Uint16(b[entryChecked:]) {
		return runEntry{}, fmt.Errorf("%w: entry of a footer", errDamaged)
	}
	return decodeEntry(b, base), nil
}

// parseRun decodes entries and appends them to run; errDamaged when they cannot
// be of a segment with that base LSN and length in bytes.
func parseRun(run []runEntry, b []byte, base uint64, size int64) ([]runEntry, error) {
	run = slices.Grow(run, len(b)/runEntrySize)
	for ; len(b) >= runEntrySize; b = b[runEntrySize:] {
		e := decodeEntry(b, base)
		if e.Unit < segmentHeaderSize/unitSize || e.Units < headerSize/unitSize || (int64(e.Unit)+int64(e.Units))*unitSize > size {
			return run, fmt.Errorf("%w: run entry out of bounds", errDamaged)
		}
		run = append(run, e)
	}
	if len(b) != 0 {
		return run, fmt.Errorf("%w: run is cut off", errDamaged)
	}
	return run, nil
}

// sample says where one record in about every sampleBytes of a segment lies, so
// that a record is found by its LSN with one read.
//
//	0 LSN - base LSN of the segment 4 | unit 4
type sample struct{ lsn, unit uint32 }

const (
	sampleSize  = 8
	sampleBytes = 64 << 10
)

func appendSamples(b []byte, samples []sample) []byte {
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint32(b, s.lsn)
		b = binary.LittleEndian.AppendUint32(b, s.unit)
	}
	return b
}

func parseSamples(b []byte) []sample {
	samples := make([]sample, 0, len(b)/sampleSize)
	for ; len(b) >= sampleSize; b = b[sampleSize:] {
		samples = append(samples, sample{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])})
	}
	return samples
}

// addSample appends a sample for the record unless the last one is near.
func addSample(samples []sample, lsn, unit uint32) []sample {
	if n := len(samples); n > 0 && (unit-samples[n-1].unit)*unitSize < sampleBytes {
		return samples
	}
	return append(samples, sample{lsn, unit})
}

// checkpoint is the body of a CHECKPOINT: what the log holds of one segment
// between the place where the checkpoint before it ended and resume.
//
//	0 sequence 4 | unit of the checkpoint before 4 | resume 4 | reserved 4 | run
//
// The record's Previous is the last LSN before resume.
type checkpoint struct {
	sequence uint32
	before   uint32 // unit; 0 if none
	resume   uint32 // unit of the first record that the run does not cover
	run      []byte
}

func (c *checkpoint) prefix() []byte {
	b := make([]byte, 0, checkpointPrefix)
	for _, n := range [...]uint32{c.sequence, c.before, c.resume, 0} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

func parseCheckpoint(b []byte) (checkpoint, error) {
	if len(b) < checkpointPrefix {
		return checkpoint{}, fmt.Errorf("%w: checkpoint is cut off", errDamaged)
	}
	le := binary.LittleEndian
	return checkpoint{
		sequence: le.Uint32(b), before: le.Uint32(b[4:]), resume: le.Uint32(b[8:]), run: b[checkpointPrefix:],
	}, nil
}

// seal is the footer of a segment that gets no more records: its run, samples,
// chunk table, and at the very end of the file the header of a SEAL record. The
// header's LSN is the last of the segment, Previous its base LSN, Versions the
// number of entries; the first four bytes of the version id are the last
// sequence that the segment stands for.
type seal struct {
	salt    uint32
	base    uint64
	last    uint64
	through uint32
	units   uint32 // of the footer
	count   uint32
	size    uint64 // of run and samples
	crc     uint32 // of the chunk table
}

// encodeSeal returns the footer of a segment.
func encodeSeal(salt uint32, base, last uint64, through uint32, entries []runEntry, samples []sample) ([]byte, error) {
	size := len(entries)*runEntrySize + len(samples)*sampleSize
	h := header{
		Type: TypeSeal, LSN: last, Previous: base, Salt: salt, Versions: uint32(len(entries)), Size: uint64(size),
	}
	binary.LittleEndian.PutUint32(h.VersionID[:], through)
	parts := h.layout()
	if parts.length > sealSizeMax {
		return nil, fmt.Errorf("%w: footer of %d bytes", ErrTooLarge, parts.length)
	}
	h.Units = uint32(parts.length / unitSize)
	b := make([]byte, 0, parts.length)
	b = appendSamples(appendRun(b, base, entries), samples)
	table := AppendChunkTable(nil, b)
	h.DataCRC = checksum(table)
	b = append(b, table...)
	b = b[:parts.length]
	h.encode(b[parts.length-headerSize:])
	return b, nil
}

// parseSeal reads the header at the end of a segment file; errDamaged when it is
// none.
func parseSeal(b []byte) (seal, error) {
	h, err := parseHeader(b)
	if err != nil {
		return seal{}, err
	}
	le := binary.LittleEndian
	s := seal{
		salt: h.Salt, base: h.Previous, last: h.LSN, through: le.Uint32(h.VersionID[:]), units: h.Units,
		count: h.Versions, size: h.Size, crc: h.DataCRC,
	}
	if h.Type != TypeSeal || s.base == 0 || s.last < s.base-1 || uint64(s.count)*runEntrySize > s.size {
		return seal{}, fmt.Errorf("%w: not a seal", errDamaged)
	}
	return s, nil
}

// check compares the footer's bytes, without the header, with their checksums,
// and returns run and samples.
func (s *seal) check(b []byte) (run, samples []byte, err error) {
	end := s.size + 4*chunkCount(s.size)
	if uint64(len(b)) < end || checksum(b[s.size:end]) != s.crc {
		return nil, nil, fmt.Errorf("%w: seal's chunk table", errDamaged)
	}
	r := Record{Data: b[:s.size], Table: b[s.size:end]}
	if err := r.checkData(); err != nil {
		return nil, nil, err
	}
	split := uint64(s.count) * runEntrySize
	return b[:split], b[split:s.size], nil
}
