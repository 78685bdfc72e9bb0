package bundle

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
)

// Exported tells how far an export went.
type Exported struct {
	Position     // up to which all was visited
	Skipped  int // records, and places with more, that could not be read: a peer is not known to have everything
}

// Export visits the records from after an LSN on that count, in the order in which
// they lie: of a name without versions the newest, of each version the last one, and
// the removals of versions. It leaves out what want does not take; nil takes all.
// Records are given as they are in the log, checked to the last byte, and valid until
// visit returns. Segments that compaction replaces meanwhile stay until it is done.
// It ends with the first error of visit.
func (b *Bundle) Export(since uint64, want func(e *format.Entry) bool, visit func(p []byte, r *format.Record) error) (done Exported, err error) {
	return b.export(since, want, wholeRecords, visit)
}

// ExportHeads is Export of header, version block and metadata alone. Data and checksums are not read.
func (b *Bundle) ExportHeads(since uint64, want func(e *format.Entry) bool, visit func(p []byte, r *format.Record) error) (Exported, error) {
	return b.export(since, want, recordHeads, visit)
}

func (b *Bundle) export(since uint64, want func(e *format.Entry) bool, how reading, visit func(p []byte, r *format.Record) error) (done Exported, err error) {
	extents, counts, done, err := b.countingSince(since, want)
	defer unpin(extents)
	if err != nil {
		return done, err
	}
	return done, b.visit(counts, how, visit, &done.Skipped)
}

// reading is how an export reads records.
type reading struct {
	window int // bytes read at once
	record func(source *segment.Window, e *found) (p []byte, r *format.Record, err error)
}

var (
	wholeRecords = reading{segment.WindowSize, wholeRecord}
	recordHeads  = reading{headWindow, headOfRecord}
)

// headWindow is what a record's header, version block and metadata mostly fit in.
const headWindow = 4 << 10

func wholeRecord(source *segment.Window, e *found) (p []byte, r *format.Record, err error) {
	if p, err = source.At(int64(e.Unit)*format.UnitSize, int(e.Units)*format.UnitSize); err == nil {
		r, err = checked(p, e.segment.salt, &e.Entry)
	}
	return p, r, err
}

func headOfRecord(source *segment.Window, e *found) (p []byte, r *format.Record, err error) {
	r = new(format.Record)
	for need := format.HeaderSize; need > len(p); {
		if need > int(e.Units)*format.UnitSize {
			return nil, nil, fmt.Errorf("%w: a head longer than its record", format.ErrDamaged)
		}
		if p, err = source.At(int64(e.Unit)*format.UnitSize, need); err != nil {
			return nil, nil, err
		}
		if need, err = r.ParsePart(p, true); err != nil {
			return nil, nil, err
		}
	}
	return p, r, isOf(r, e.segment.salt, &e.Entry)
}

// countingSince lists the records from after an LSN on that count, in the order in which they
// lie. A name whose newest record may be hidden by damage has none. Their segments are pinned,
// also after an error.
func (b *Bundle) countingSince(since uint64, want func(e *format.Entry) bool) (extents []extent, counts []found, done Exported, err error) {
	b.mu.RLock()
	extents, done.Position = b.extents()
	b.mu.RUnlock()
	var entries []found
	var gaps []gap
	for i := range extents {
		x := &extents[i]
		if x.last <= since {
			continue
		}
		run, around, err := b.runOf(x)
		gaps = append(gaps, around...)
		if format.IsDamage(err) || isUnreadable(err) {
			b.tell(b.inSegment(x.segment, fmt.Errorf("segment %08x is not exported: %w", x.segment.sequence, err)))
			gaps = append(gaps, gap{x.segment, segment.Span{To: math.MaxInt64}})
			continue
		}
		if err != nil {
			return extents, nil, done, err
		}
		entries = slices.Grow(entries, len(run))
		for _, e := range b.own(x.segment, run) {
			if e.LSN > since {
				entries = append(entries, found{e, x.segment})
			}
		}
	}
	slices.SortFunc(entries, func(e, f found) int { return e.Compare(f.Entry) })
	done.Skipped = len(gaps)
	last(b.shown(entries, gaps), func(e *found) {
		if e.Type != format.TypeVersionDirectory && (want == nil || want(&e.Entry)) {
			counts = append(counts, *e)
		}
	})
	slices.SortFunc(counts, func(e, f found) int {
		return cmp.Or(cmp.Compare(e.segment.base, f.segment.base), cmp.Compare(e.Unit, f.Unit))
	})
	return extents, counts, done, nil
}

func unpin(extents []extent) {
	for i := range extents {
		extents[i].segment.unpin()
	}
}

// visit reads the records of entries.
func (b *Bundle) visit(entries []found, how reading, visit func(p []byte, r *format.Record) error, skipped *int) error {
	for len(entries) > 0 {
		s, n := entries[0].segment, 1
		for n < len(entries) && entries[n].segment == s {
			n++
		}
		if err := b.visitSegment(s, entries[:n], how, visit, skipped); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func (b *Bundle) visitSegment(s *openSegment, entries []found, how reading, visit func(p []byte, r *format.Record) error, skipped *int) error {
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return err
	}
	defer file.release()
	end := &entries[len(entries)-1]
	source := segment.NewWindow(file, (int64(end.Unit)+int64(end.Units))*format.UnitSize, how.window)
	defer source.Close()
	for i := range entries {
		e := &entries[i]
		p, r, err := how.record(&source, e)
		if format.IsDamage(err) || isUnreadable(err) {
			err = fmt.Errorf("%w: %s record %d: %w", format.ErrQuarantined, b.directory, e.LSN, err)
			b.tell(b.placedByLSN(&Record{Record: format.Record{Head: format.Header{LSN: e.LSN, Hash: e.Hash}}}, err))
			*skipped++
			continue
		}
		if err == nil {
			err = visit(p, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checked parses a record that must be that of an entry, and checks every byte.
func checked(p []byte, salt uint32, e *format.Entry) (*format.Record, error) {
	r, err := format.ParseRecord(p)
	if err == nil {
		err = isOf(r, salt, e)
	}
	if err == nil {
		err = r.CheckData()
	}
	return r, err
}

// isOf fails if a record is not that of an entry.
func isOf(r *format.Record, salt uint32, e *format.Entry) error {
	if r.Head.Salt != salt || r.Head.Entry(e.Unit) != *e {
		return fmt.Errorf("%w: not the record of its entry", format.ErrDamaged)
	}
	return nil
}
