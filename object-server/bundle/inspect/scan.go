package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// Scan reads one segment file from its start to its end, without an index, and
// changes nothing. The file may grow meanwhile: what has been appended since the
// Scan was made is left out. It is not safe for concurrent use.
type Scan struct {
	name    string
	file    vfs.File
	owned   bool // Close closes the file
	whole   bool
	segment segment.File
	head    *format.SegmentHeader // nil: damaged
	walker  segment.Walker
	torn    bool
	queue   []Entry
	entry   Entry         // that Next returned last
	parsed  format.Record // of it

	entries     []format.Entry // of all good headers of named records met, in the order of the log
	lost        []segment.Span // where records are missing
	listed      []format.Entry // as the footer says, by unit; nil: not read yet, or no good footer
	footerError error
	searched    bool                // for the last CHECKPOINT
	covered     segment.Checkpoints // what it and those before it say
	checkpoints map[uint32]uint32   // unit of each CHECKPOINT met: unit of the first record that it does not cover
}

// Entry is what Next finds: a record, damage, or both.
type Entry struct {
	Offset int64
	Length int64 // bytes
	Record *format.Record
	Damage *bundle.Damage // nil: all checksums that were looked at hold

	unreadable bool // the damage is, by the disk: what lies there may have been acknowledged
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
	f, head, err := segment.ReadFile(file, filepath.Base(path))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := newScan(file, &f, segment.NoLimit, whole)
	s.name, s.head, s.owned = filepath.Base(path), head, true
	if f.Base > 0 && f.IsUnfinished(f.Base, segment.NoLimit) {
		s.walker.Stop()
		s.torn, s.queue = true, nil
	}
	return s, nil
}

func newScan(file vfs.File, f *segment.File, bound segment.Limit, whole bool) *Scan {
	s := &Scan{
		name: format.SegmentName(f.Sequence, f.Generation), file: file, whole: whole, segment: *f,
		checkpoints: map[uint32]uint32{0: format.SegmentHeaderSize / format.UnitSize},
	}
	if f.Seal != nil {
		s.entries = make([]format.Entry, 0, min(int64(f.Seal.Count), f.Size/format.HeaderSize))
	}
	if whole {
		s.walker = f.Walk(segment.NewAheadWindow(file, f.End()), bound)
	} else {
		s.walker = f.Walk(segment.NewWindow(file, f.End(), segment.WindowSize), bound)
	}
	s.begin()
	return s
}

// begin looks at the segment header.
func (s *Scan) begin() {
	f := &s.segment
	if f.Worn {
		s.report(0, format.SegmentHeaderSize, "one of the two segment headers is damaged")
	}
	switch {
	case !f.Headless:
	case f.Base == 0: // nothing in it proves itself
		s.walker.Stop()
		if f.Size > format.SegmentHeaderSize && (s.walker.Limit().Sure || f.Unreadable) {
			s.report(0, f.Size, "neither a segment header nor a record")
		}
	default:
		s.report(0, format.SegmentHeaderSize, "segment header is damaged")
	}
}

// Close frees what the Scan holds.
func (s *Scan) Close() error {
	s.walker.Close()
	if s.owned {
		return s.file.Close()
	}
	return nil
}

// Torn tells whether the segment ends with bytes that were never acknowledged. It
// is known when Next has returned io.EOF.
func (s *Scan) Torn() bool { return s.torn }

// report queues damage that loses no record.
func (s *Scan) report(offset, length int64, format string, args ...any) {
	s.queue = append(s.queue, Entry{Offset: offset, Length: length, Damage: &bundle.Damage{
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
		h, err := s.walker.Read()
		switch {
		case err == nil:
			return s.record(&h), nil
		case err == io.EOF:
			if s.listed == nil && s.footerError == nil && !s.checkFooter() || len(s.queue) == 0 {
				return nil, io.EOF
			}
			continue
		case errors.Is(err, format.ErrDamaged):
			err = s.resync()
		}
		if err != nil { // of a later version, or the disk does not answer
			s.walker.Stop()
			at := s.walker.Next().Offset
			s.report(at, s.walker.End()-at, "%v", err)
			s.queue[len(s.queue)-1].Damage.Final = true
		}
	}
}

// record reads the record of which the walker has read the header.
func (s *Scan) record(h *format.Header) *Entry {
	e := &s.entry
	s.parsed = format.Record{Head: *h}
	*e = Entry{Offset: s.walker.At(), Length: int64(h.Units) * format.UnitSize, Record: &s.parsed}
	err := s.body(e)
	if h.Type.Named() {
		s.entries = append(s.entries, h.Entry(uint32(e.Offset/format.UnitSize)))
	}
	if err != nil {
		d := &bundle.Damage{
			Segment: s.name, Offset: e.Offset, Length: e.Length, FirstLSN: h.LSN, LastLSN: h.LSN, Cause: err.Error(),
		}
		if h.Type.Named() {
			d.Lost = []bundle.Lost{{LSN: h.LSN, Hash: h.Hash, Name: s.nameAt(e.Offset)}}
		} else { // a CHECKPOINT that others may refer to
			s.lost = append(s.lost, segment.Span{From: e.Offset, To: e.Offset + e.Length})
		}
		e.Damage, e.unreadable = d, segment.IsBadSector(err)
	}
	return e
}

// body reads what is behind the header and checks it.
func (s *Scan) body(e *Entry) error {
	length := e.Length
	if t := e.Record.Head.Type; !s.whole && t != format.TypeCheckpoint && t != format.TypeSpill {
		length = int64(e.Record.Head.Layout().Data)
	}
	p, err := s.walker.Bytes(e.Offset, int(length))
	if err != nil {
		return err
	}
	record := e.Record
	if length < e.Length {
		err = record.ParseMetadata(p)
	} else {
		_, err = record.ParsePart(p, false)
	}
	if err != nil {
		return err
	}
	if s.whole {
		if err := record.CheckData(); err != nil {
			return err
		}
	}
	if record.Head.Type == format.TypeCheckpoint {
		return s.checkCheckpoint(record, e.Offset)
	}
	return record.CheckStructure()
}

// nameAt guesses the name of the record at an offset from its metadata, whether or
// not their checksum holds.
func (s *Scan) nameAt(offset int64) string {
	b := make([]byte, min(64<<10, max(s.walker.End()-offset-format.HeaderSize, 0)))
	if segment.ReadFull(s.file, b, offset+format.HeaderSize) != nil {
		return ""
	}
	m, err := format.DecodeMetadata(b)
	if err != nil {
		return ""
	}
	return m.Name
}

// bytes are those of the record that Next returned last, valid until the next call.
func (s *Scan) bytes(e *Entry) ([]byte, error) { return s.walker.Bytes(e.Offset, int(e.Length)) }

// resync queues what is lost in a bad place.
func (s *Scan) resync() error {
	g, err := s.walker.Resync()
	switch {
	case g == nil:
		return err
	case g.Torn:
		s.torn = true
	default:
		s.lose(g)
	}
	return nil
}

// lose queues the loss of records.
func (s *Scan) lose(g *segment.Gap) {
	d := &bundle.Damage{
		Segment: s.name, Offset: g.From, Length: g.To - g.From, FirstLSN: g.First, LastLSN: g.Last,
		Cause: "no valid record where one should be", IsGap: true,
	}
	unreadable := s.walker.Unreadable(g.Span)
	if unreadable != nil {
		d.Cause = unreadable.Error()
	}
	known, through := s.known()
	for _, e := range known {
		if at := int64(e.Unit) * format.UnitSize; at >= g.From && at < g.To {
			d.Lost = append(d.Lost, bundle.Lost{LSN: e.LSN, Hash: e.Hash, Name: s.nameAt(at), IsSure: true})
		}
	}
	if first := max(g.First, through+1); first <= g.Last && !g.Unnamed {
		d.Unnamed = g.Last - first + 1
	}
	if guess := s.guess(g); len(d.Lost) == 0 && d.Unnamed > 0 && guess != (bundle.Lost{LSN: g.First}) {
		d.Lost = []bundle.Lost{guess}
		if guess.Hash != (format.Hash{}) {
			d.Unnamed--
		}
	}
	s.lost = append(s.lost, g.Span)
	s.queue = append(s.queue, Entry{Offset: g.From, Length: d.Length, Damage: d, unreadable: unreadable != nil})
}

// guess tells what is left of the record that a gap begins with, whose header is
// damaged.
func (s *Scan) guess(g *segment.Gap) bundle.Lost {
	l := bundle.Lost{LSN: g.First, Name: s.nameAt(g.From)}
	b := make([]byte, format.HeaderSize)
	if g.From+format.HeaderSize > s.walker.End() || segment.ReadFull(s.file, b, g.From) != nil {
		return l
	}
	if lsn := binary.LittleEndian.Uint64(b[8:]); lsn == g.First || format.SaltOf(b) == s.segment.Salt {
		l.Hash = format.Hash(b[24:40])
	}
	return l
}

// isLost tells whether a unit lies where records are missing.
func (s *Scan) isLost(unit uint32) bool {
	at := int64(unit) * format.UnitSize
	return slices.ContainsFunc(s.lost, func(p segment.Span) bool { return at >= p.From && at < p.To })
}
