package inspect

import (
	"cmp"
	"fmt"
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
)

// footer lists what the footer of the segment says, by unit; nil if there is
// none that is good.
func (s *Scan) footer() []format.Entry {
	if s.listed != nil || s.footerError != nil || s.segment.Seal == nil {
		return s.listed
	}
	var samples []format.Sample
	s.listed, samples, s.footerError = segment.ReadSeal(s.file, s.segment.Size, s.segment.Seal)
	if s.footerError != nil {
		s.listed = nil
		return nil
	}
	format.ByUnit(s.listed)
	for _, x := range samples {
		i, ok := slices.BinarySearchFunc(s.listed, x.Unit, func(e format.Entry, unit uint32) int { return cmp.Compare(e.Unit, unit) })
		if ok && s.listed[i].LSN != s.segment.Base+uint64(x.LSN) {
			s.footerError = fmt.Errorf("%w: a sample of the footer is of another record", format.ErrDamaged)
		}
	}
	return s.listed
}

// known lists what the footer says of the segment, or without one its CHECKPOINTs,
// and the LSN up to which that is all.
func (s *Scan) known() (entries []format.Entry, through uint64) {
	if listed := s.footer(); listed != nil {
		return listed, s.segment.Seal.Last
	}
	if s.segment.Generation > 0 {
		return nil, 0
	}
	if !s.searched {
		s.searched = true
		unit, err := segment.LastCheckpoint(s.file, s.segment.Size, s.segment.Salt)
		if err != nil || unit == 0 {
			return nil, 0
		}
		// Damage to a checkpoint is told elsewhere.
		s.covered, _ = segment.ReadCheckpoints(s.file, s.segment.Origin, s.segment.Size, unit)
	}
	return s.covered.Entries, s.covered.Covered
}

// checkFooter compares the footer with the records met. It tells whether it
// queued something.
func (s *Scan) checkFooter() bool {
	if s.torn || s.segment.Base == 0 {
		return false
	}
	if s.segment.Seal == nil {
		if s.segment.Generation == 0 { // none yet, or torn: it is written again
			return false
		}
		s.footerError = fmt.Errorf("%w: a compacted segment has no footer", format.ErrDamaged)
	}
	cause := ""
	if listed := s.footer(); s.footerError != nil {
		cause = s.footerError.Error()
	} else {
		cause = s.differ(listed, s.entries)
	}
	if cause == "" {
		return false
	}
	s.report(s.segment.End(), s.segment.Size-s.segment.End(), "footer: %s", cause)
	s.footerError = format.ErrDamaged
	return true
}

// differ compares a run with the records that it should list; both are by unit.
// It is empty if they agree.
func (s *Scan) differ(run, met []format.Entry) string {
	i := 0
	for _, e := range run {
		switch {
		case i < len(met) && met[i] == e:
			i++
		case !s.isLost(e.Unit):
			return fmt.Sprintf("it lists record %d at offset %d, which is not what lies there", e.LSN, int64(e.Unit)*format.UnitSize)
		}
	}
	if i < len(met) {
		return fmt.Sprintf("it does not list record %d at offset %d", met[i].LSN, int64(met[i].Unit)*format.UnitSize)
	}
	return ""
}

// checkCheckpoint compares the CHECKPOINT at an offset with the records that it covers.
func (s *Scan) checkCheckpoint(r *format.Record, offset int64) error {
	body, err := format.ParseCheckpoint(r.Data)
	if err != nil {
		return err
	}
	if body.Sequence != s.segment.Sequence { // made for the segment before; says nothing of this one
		return nil
	}
	run, err := format.ParseRun(nil, body.Run, s.segment.Base, offset)
	if err != nil {
		return err
	}
	from, ok := s.checkpoints[body.Before]
	if !ok && !s.isLost(body.Before) {
		return fmt.Errorf("%w: no checkpoint at offset %d", format.ErrDamaged, int64(body.Before)*format.UnitSize)
	}
	s.checkpoints[uint32(offset/format.UnitSize)] = body.Resume
	if !ok { // where its run begins is not known
		return nil
	}
	var met []format.Entry
	for _, e := range s.entries {
		if e.Unit >= from && e.Unit < body.Resume {
			met = append(met, e)
		}
	}
	format.ByUnit(run)
	if cause := s.differ(run, met); cause != "" {
		return fmt.Errorf("%w: checkpoint: %s", format.ErrDamaged, cause)
	}
	return nil
}
