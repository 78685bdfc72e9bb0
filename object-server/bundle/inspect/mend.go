package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/bundle/versions"
)

// broken is a damaged record whose header is good.
type broken struct {
	head   format.Header
	file   bundle.SegmentFile
	offset int64
}

// mend makes what is written in place of lost records, where more than their own
// data would be lost with them: a tombstone keeps what was deleted from coming
// back, and the other versions of a name are read through each of its records. It
// takes them in the order of the log, for each is made from those before it.
func (r *Repair) mend() error {
	lost := slices.Clone(r.pass.broken)
	for i := range r.pass.spills {
		s := &r.pass.spills[i]
		if !r.large[s.id] || !r.pass.newest[s.hash].versioned {
			continue
		}
		record, buffer, err := r.pass.recordOf(s.place())
		if err != nil {
			return err
		}
		lost = append(lost, broken{record.Head, s.segment, int64(s.unit) * format.UnitSize})
		buffer.Free()
	}
	slices.SortFunc(lost, func(x, y broken) int { return cmp.Compare(x.head.LSN, y.head.LSN) })
	for i := range lost {
		if x := &lost[i]; r.mended[x.head.LSN] == nil {
			if err := r.mendRecord(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// mendRecord makes of a tombstone or delete marker one without metadata, of an
// object with other versions a VERSION DIRECTORY. There is nothing to be made of
// an object without, nor where the version block cannot be told.
func (r *Repair) mendRecord(x *broken) error {
	h := &x.head
	isChained := h.Flags&format.FlagVersions != 0
	become := h.Type
	switch {
	case h.Type == format.TypeTombstone && !isChained:
		r.mended[h.LSN] = h.Without(format.TypeTombstone, nil)
		return nil
	case !isChained && !r.pass.newest[h.Hash].versioned:
		return nil
	case h.Type != format.TypeTombstone && h.Type != format.TypeDeleteMarker:
		become = format.TypeVersionDirectory
	}
	l, err := r.linkOf(x)
	if err != nil {
		if errors.Is(err, format.ErrQuarantined) || format.IsDamage(err) {
			return nil
		}
		return err
	}
	made := h.Without(become, l.Block.Append(nil))
	if l.Head, err = format.ParseHeader(made); err != nil {
		return err
	}
	r.mended[h.LSN], r.links[h.LSN] = made, l
	return nil
}

// linkOf takes what a damaged record says of the others of its name from its
// version block, or where that is damaged from its header and the record before.
func (r *Repair) linkOf(x *broken) (versions.Link, error) {
	parts := x.head.Layout()
	buffer, err := r.pass.read(&x.file, x.offset, int(parts.Data))
	if err != nil && !segment.IsBadSector(err) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return versions.Link{}, err
	}
	defer buffer.Free()
	if err == nil && format.Checksum(buffer.B[format.HeaderSize:]) == x.head.MetadataCRC {
		if l, err := versions.NewLink(x.head, buffer.B[format.HeaderSize:parts.Metadata]); err == nil {
			return l, nil
		}
	}
	return versions.Rebuild(repairReader{r, x.head.Hash}, x.head)
}

// repairReader reads the chain of one name as it is after the repair.
type repairReader struct {
	repair *Repair
	hash   format.Hash
}

func (x repairReader) ReadLink(lsn uint64) (versions.Link, error) {
	l, ok := x.repair.links[lsn]
	if ok {
		return l, nil
	}
	p := x.repair.pass
	at, ok := slices.BinarySearchFunc(p.kept, lsn, func(k kept, lsn uint64) int { return cmp.Compare(k.lsn, lsn) })
	if !ok || p.kept[at].hash != x.hash {
		return versions.Link{}, fmt.Errorf("%w: record %d is not there", format.ErrQuarantined, lsn)
	}
	record, buffer, err := p.recordOf(p.place(&p.kept[at]))
	if err != nil {
		return versions.Link{}, err
	}
	defer buffer.Free()
	return versions.NewLink(record.Head, record.Block)
}
