package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// Scan reads one segment file from its start to its end, without an index, and
// changes nothing. The file may grow meanwhile: what has been appended since the
// Scan was made is left out. It is not safe for concurrent use.
type Scan struct {
	name     string
	file     *handle
	owned    bool // Close closes the file
	whole    bool
	segment  segmentFile
	head     *format.SegmentHeader // nil: damaged
	limit    limit
	window   window
	offset   int64
	end      int64 // of the records
	expected uint64
	proven   uint64 // highest watermark met
	floor    uint64 // see Files.Floor
	done     bool
	torn     bool
	queue    []Entry
	entry    Entry // that Next returned last

	entries     []format.Entry // of all good headers of named records met, in the order of the log
	lost        []place        // where records are missing, each with the offset behind it as lsn
	listed      []format.Entry // as the footer says, by unit; nil: not read yet, or no good footer
	footerError error
	searched    bool              // for the last CHECKPOINT
	covered     checkpoints       // what it and those before it say
	checkpoints map[uint32]uint32 // unit of each CHECKPOINT met: unit of the first record that it does not cover
}

// Entry is what Next finds: a record, damage, or both.
type Entry struct {
	Offset int64
	Length int64 // bytes
	Record *format.Record
	Damage *Damage // nil: all checksums that were looked at hold
}

// Metadata decodes those of the record; nil if it has none, or damaged ones.
func (e *Entry) Metadata() *format.Metadata {
	if e.Record == nil || !e.Record.Type().Named() {
		return nil
	}
	m, err := e.Record.Metadata()
	if err != nil {
		return nil
	}
	return m
}

// OpenScan opens a segment file by itself. Without the segments behind it, what is
// missing at its end can often not be told from what was never acknowledged. If
// whole is set, every byte of every record is checked; otherwise the object's
// bytes are not read.
func OpenScan(files vfs.FS, path string, whole bool) (*Scan, error) {
	file, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	h := &handle{File: file}
	f, head, err := readSegmentFile(h, filepath.Base(path))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := newScan(h, &f, noLimit, whole)
	s.name, s.head, s.owned = filepath.Base(path), head, true
	if f.headless && f.seal == nil && !f.unreadable && f.base > 0 && f.watermark < f.base { // a crash while it was made
		s.done, s.torn, s.queue = true, true, nil
	}
	return s, nil
}

// readSegmentFile reads header and seal of a segment. The header is nil if it is
// damaged.
func readSegmentFile(file *handle, name string) (segmentFile, *format.SegmentHeader, error) {
	var s segmentFile
	s.sequence, s.generation, _ = format.ParseSegmentName(name)
	s.through = s.sequence
	var err error
	if s.size, err = file.Size(); err != nil {
		return s, nil, fmt.Errorf("bundle: %w", err)
	}
	head, err := s.header(file)
	if err == nil {
		s.sequence, s.generation = head.Sequence, head.Generation
		s.through = max(s.sequence, head.Through)
		return s, &head, s.take(&head, file)
	}
	if !errors.Is(err, format.ErrDamaged) {
		return s, nil, err
	}
	_, err = s.rebuild(file)
	return s, nil, err
}

func newScan(file *handle, f *segmentFile, bound limit, whole bool) *Scan {
	s := &Scan{
		name: format.SegmentName(f.sequence, f.generation), file: file, whole: whole, segment: *f, limit: bound,
		offset: f.start, end: f.size, expected: f.base,
		checkpoints: map[uint32]uint32{0: format.SegmentHeaderSize / format.UnitSize},
	}
	if f.base > 0 {
		s.proven = f.base - 1
	}
	if f.headless {
		s.proven = 0
	}
	if f.seal != nil {
		s.end = f.size - int64(f.seal.Units)*format.UnitSize
		s.proven = f.seal.Last
		s.limit = limit{lsn: min(bound.lsn, f.seal.Last+1), sure: true}
		s.entries = make([]format.Entry, 0, min(int64(f.seal.Count), f.size/format.HeaderSize))
	}
	if whole {
		s.window = newAheadWindow(file, max(s.end, 0))
	} else {
		s.window = newWindow(file, max(s.end, 0))
	}
	s.begin()
	return s
}

// begin looks at the segment header.
func (s *Scan) begin() {
	f := &s.segment
	switch {
	case !f.headless:
	case f.base == 0: // nothing in it proves itself
		s.done = true
		if f.size > format.SegmentHeaderSize && (s.limit.sure || f.unreadable) {
			s.report(0, f.size, "neither a segment header nor a record")
		}
	default:
		s.report(0, format.SegmentHeaderSize, "segment header is damaged")
	}
}

// Close frees what the Scan holds.
func (s *Scan) Close() error {
	s.window.free()
	if s.owned {
		return s.file.File.Close()
	}
	return nil
}

// Torn tells whether the segment ends with bytes that were never acknowledged. It
// is known when Next has returned io.EOF.
func (s *Scan) Torn() bool { return s.torn }

// report queues damage that loses no record.
func (s *Scan) report(offset, length int64, format string, args ...any) {
	s.queue = append(s.queue, Entry{Offset: offset, Length: length, Damage: &Damage{
		Segment: s.name, Offset: offset, Length: length, Cause: fmt.Sprintf(format, args...),
	}})
}

// Next returns what comes next in the log; it is valid until the next call.
// io.EOF follows the last. Damage is no error, nor is a bad sector, which is
// damage.
func (s *Scan) Next() (*Entry, error) {
	for {
		if len(s.queue) > 0 {
			e := s.queue[0]
			s.queue = s.queue[1:]
			return &e, nil
		}
		if s.done || s.expected >= s.limit.lsn {
			if s.listed == nil && s.footerError == nil && !s.checkFooter() {
				return nil, io.EOF
			}
			if len(s.queue) == 0 {
				return nil, io.EOF
			}
			continue
		}
		h, err := s.header()
		switch {
		case err == nil:
			return s.record(&h), nil
		case errors.Is(err, format.ErrDamaged):
			err = s.resync()
		}
		if err != nil { // of a later version, or the disk does not answer
			s.done = true
			s.report(s.offset, s.end-s.offset, "%v", err)
			s.queue[len(s.queue)-1].Damage.Final = true
		}
	}
}

// header reads the header at the offset; format.ErrDamaged if it does not count.
func (s *Scan) header() (format.Header, error) {
	p, err := s.window.at(s.offset, format.HeaderSize)
	if err != nil {
		return format.Header{}, err
	}
	h, err := format.ParseHeader(p)
	if err != nil && format.SaltOf(p) == s.segment.salt {
		return h, err
	}
	if err != nil || h.Salt != s.segment.salt || !h.Fits(s.offset, s.end) || h.Type == format.TypeSeal ||
		h.LSN < s.expected || h.LSN >= s.limit.lsn || h.LSN > s.expected && s.segment.generation == 0 {
		return h, fmt.Errorf("%w: not the expected record", format.ErrDamaged)
	}
	return h, nil
}

// record reads the record at the offset, whose header is good.
func (s *Scan) record(h *format.Header) *Entry {
	e := &s.entry
	*e = Entry{Offset: s.offset, Length: int64(h.Units) * format.UnitSize, Record: &format.Record{Head: *h}}
	err := s.body(e)
	unit := uint32(s.offset / format.UnitSize)
	if h.Type.Named() {
		s.entries = append(s.entries, h.Entry(unit))
	}
	if err != nil {
		d := &Damage{
			Segment: s.name, Offset: e.Offset, Length: e.Length, FirstLSN: h.LSN, LastLSN: h.LSN, Cause: err.Error(),
			unreadable: isBadSector(err),
		}
		if h.Type.Named() {
			d.Lost = []Lost{{LSN: h.LSN, Hash: h.Hash, Name: s.nameAt(e.Offset)}}
		} else { // a CHECKPOINT that others may refer to
			s.lost = append(s.lost, place{e.Offset, uint64(e.Offset + e.Length)})
		}
		e.Damage = d
	}
	s.proven = max(s.proven, h.Watermark())
	s.offset += e.Length
	s.expected = h.LSN + 1
	return e
}

// body reads what is behind the header and checks it.
func (s *Scan) body(e *Entry) error {
	length := e.Length
	if !s.whole && e.Record.Head.Type != format.TypeCheckpoint {
		length = int64(e.Record.Head.Layout().Data)
	}
	p, err := s.window.at(s.offset, int(length))
	if err != nil {
		return err
	}
	record := e.Record
	if length < e.Length {
		err = record.ParseMetadata(p)
	} else {
		record, err = format.ParseRecord(p)
	}
	if err != nil {
		return err
	}
	e.Record = record
	if s.whole {
		if err := record.CheckData(); err != nil {
			return err
		}
	}
	if record.Head.Type == format.TypeCheckpoint {
		return s.checkCheckpoint(record)
	}
	return record.CheckStructure()
}

// nameAt guesses the name of the record at an offset from its metadata, whether or
// not their checksum holds.
func (s *Scan) nameAt(offset int64) string {
	b := make([]byte, min(64<<10, max(s.end-offset-format.HeaderSize, 0)))
	if readFull(s.file, b, offset+format.HeaderSize) != nil {
		return ""
	}
	m, err := format.DecodeMetadata(b)
	if err != nil {
		return ""
	}
	return m.Name
}

// resync finds out what the bad place at the offset is, as recovery does, and
// goes to where reading can go on.
func (s *Scan) resync() error {
	isShort := s.limit == noLimit && s.expected <= s.floor
	if s.offset == s.end && !isShort && (!s.limit.sure || s.segment.generation > 0) {
		s.done = true
		return nil
	}
	padded, err := s.window.padded(s.offset)
	if err != nil || padded && !s.limit.sure && !isShort {
		s.done = err == nil
		return err
	}
	seek := search{window: s.window, limit: s.limit.lsn, salt: s.segment.salt, salted: true}
	err = seek.run(s.offset, s.expected)
	s.window = seek.window
	if err != nil {
		return err
	}
	s.proven = max(s.proven, seek.watermark)
	last, proven := s.limit.lsn-1, s.proven
	if s.window.holes.behind(s.offset) {
		proven = max(proven, s.expected+s.segment.mayHold(s.end-s.offset)-1)
	}
	switch {
	case !s.limit.sure && proven < s.expected:
		s.done, s.torn = true, true
		return nil
	case seek.found:
		last = seek.first.lsn - 1
	case !s.limit.sure:
		last = min(proven, last)
	}
	behind := s.end
	if seek.found {
		behind = seek.first.offset
	}
	s.lose(behind, last)
	s.offset, s.expected, s.done = behind, last+1, !seek.found
	return nil
}

// lose queues the loss of the records from the offset up to another offset and
// an LSN.
func (s *Scan) lose(behind int64, last uint64) {
	d := &Damage{
		Segment: s.name, Offset: s.offset, Length: behind - s.offset, FirstLSN: s.expected, LastLSN: last,
		Cause: "no valid record where one should be",
	}
	if err := s.window.holes.meet(s.offset, behind); err != nil {
		d.Cause, d.unreadable = err.Error(), true
	}
	known, through := s.known()
	for _, e := range known {
		if at := int64(e.Unit) * format.UnitSize; at >= s.offset && at < behind {
			d.Lost = append(d.Lost, Lost{LSN: e.LSN, Hash: e.Hash, Name: s.nameAt(at)})
		}
	}
	if first := max(s.expected, through+1); first <= last {
		d.Unnamed = last - first + 1
	}
	if guess := s.guess(); len(d.Lost) == 0 && d.Unnamed > 0 && guess != (Lost{LSN: s.expected}) {
		d.Lost = []Lost{guess}
		if guess.Hash != (format.Hash{}) {
			d.Unnamed--
		}
	}
	s.lost = append(s.lost, place{s.offset, uint64(behind)})
	s.queue = append(s.queue, Entry{Offset: s.offset, Length: d.Length, Damage: d})
}

// guess tells what is left of the record at the offset, whose header is damaged.
func (s *Scan) guess() Lost {
	l := Lost{LSN: s.expected, Name: s.nameAt(s.offset)}
	b := make([]byte, format.HeaderSize)
	if s.offset+format.HeaderSize > s.end || readFull(s.file, b, s.offset) != nil {
		return l
	}
	if lsn := binary.LittleEndian.Uint64(b[8:]); lsn == s.expected || format.SaltOf(b) == s.segment.salt {
		l.Hash = format.Hash(b[24:40])
	}
	return l
}

// isLost tells whether a unit lies where records are missing.
func (s *Scan) isLost(unit uint32) bool {
	at := int64(unit) * format.UnitSize
	return slices.ContainsFunc(s.lost, func(p place) bool { return at >= p.offset && at < int64(p.lsn) })
}
