package inspect

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// Repair is what it takes to make a damaged partition open clean: its damaged
// segments are written anew without what is damaged.
type Repair struct {
	Damages []bundle.Damage `json:"damages"`
	Rewrite []string        `json:"rewrite"` // segments
	Returns []Return        `json:"returns"` // older records that count again

	pass  *pass
	large map[uint64]bool // large files that are lost

	erased   map[format.Hash]uint64 // see Erase
	erasedIn map[string]bool        // segments

	mended map[uint64][]byte        // by LSN: what is written in place of damaged records
	links  map[uint64]versions.Link // what those of names with versions say
}

// Return is a record that counts again because a newer one of its name is lost.
type Return struct {
	LSN  uint64      `json:"lsn"`
	Hash format.Hash `json:"hash"`
	Name string      `json:"name,omitempty"` // empty: not known
	Lost uint64      `json:"lost"`           // LSN of the newer one
}

// PlanRepair reads all of a partition and changes nothing. It must not be
// written to meanwhile.
func PlanRepair(files *bundle.Files, id bundle.ID) (*Repair, error) {
	p, err := newPass(files, id, "", true)
	if err != nil {
		return nil, err
	}
	r := &Repair{Damages: p.verdict.Damages, Rewrite: []string{}, pass: p, large: make(map[uint64]bool), mended: make(map[uint64][]byte), links: make(map[uint64]versions.Link)}
	for _, d := range r.Damages {
		if d.LargeID != 0 && d.LastLSN > 0 {
			r.large[uint64(d.LargeID)] = true
		}
		if d.Final {
			return nil, fmt.Errorf("bundle: %s cannot be repaired: %s", files.Directory(id), d.String())
		}
	}
	for isMore := true; isMore; {
		if err = r.mend(); err != nil {
			return nil, err
		}
		r.Returns = r.returns()
		if isMore, err = r.dropReturns(); err != nil {
			return nil, err
		}
	}
	for i := range p.segments {
		if s := &p.segments[i]; r.isDamaged(s) {
			if s.through > s.from && s.through-s.from > math.MaxUint32 {
				return nil, fmt.Errorf("bundle: %s cannot be repaired: more records are missing than a segment can stand for", files.Directory(id))
			}
			r.Rewrite = append(r.Rewrite, format.SegmentName(s.file.Sequence, s.file.Generation))
		}
	}
	return r, nil
}

// dropReturns notes large files as lost whose records would count again: they
// were removed when they were replaced. It tells whether there were any.
func (r *Repair) dropReturns() (found bool, err error) {
	for i := range r.pass.spills {
		s := &r.pass.spills[i]
		if r.large[s.id] || !slices.ContainsFunc(r.Returns, func(x Return) bool { return x.LSN == s.lsn }) {
			continue
		}
		d, err := r.pass.checkLarge(s)
		if err != nil {
			return false, err
		}
		if d.bytes != "" {
			r.large[s.id], found = true, true
		}
	}
	return found, nil
}

// Erase leaves out the records of some names as well, up to an LSN of each: what is damaged
// may have deleted them. Run writes the segments in the order of the log. So a crash leaves
// the last damage, and with it the reason, until no such record is left before it.
func (r *Repair) Erase(through map[format.Hash]uint64) {
	r.erased = through
	if len(through) == 0 {
		return
	}
	for i := range r.pass.spills {
		if s := &r.pass.spills[i]; s.lsn <= through[s.hash] {
			r.large[s.id] = true
		}
	}
	r.Returns = slices.DeleteFunc(r.Returns, func(x Return) bool { return x.LSN <= through[x.Hash] })
	r.erasedIn = make(map[string]bool)
	for i := range r.pass.kept {
		if k := &r.pass.kept[i]; r.isErased(k.hash, k.lsn) {
			s := &r.pass.segments[k.segment].file
			r.erasedIn[format.SegmentName(s.Sequence, s.Generation)] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.erasedIn)) {
		if !slices.Contains(r.Rewrite, name) {
			r.Rewrite = append(r.Rewrite, name)
		}
	}
}

// isErased tells whether a record is one that Erase leaves out.
func (r *Repair) isErased(hash format.Hash, lsn uint64) bool { return lsn <= r.erased[hash] }

// isDone tells whether nothing is left to be written anew.
func (r *Repair) isDone() bool { return len(r.Damages)+len(r.erasedIn) == 0 }

// isDamaged tells whether a segment must be written anew. The one behind a gap
// takes over the numbers of the gap.
func (r *Repair) isDamaged(s *passed) bool {
	name := format.SegmentName(s.file.Sequence, s.file.Generation)
	return s.from < s.file.Base || r.erasedIn[name] ||
		slices.ContainsFunc(r.Damages, func(d bundle.Damage) bool { return d.Segment == name && !isCopy(&d) }) ||
		slices.ContainsFunc(r.pass.spills, func(x spill) bool { return r.large[x.id] && x.segment.Sequence == s.file.Sequence })
}

// isCopy tells whether the damage is to a copy of what is good elsewhere.
func isCopy(d *bundle.Damage) bool { return d.LargeID != 0 && d.LastLSN == 0 }

// isLost tells whether the record at an offset of a segment is to be left out.
// The records that a POST made share one large file, and are lost with it.
func (r *Repair) isLost(name string, e *Entry) bool {
	return e.Record.Head.Type == format.TypeSpill && r.large[e.Record.LargeID] ||
		slices.ContainsFunc(r.Damages, func(d bundle.Damage) bool {
			return d.Segment == name && d.LastLSN > 0 && d.Offset == e.Offset
		})
}

// returns finds, for each lost record of a known name that was the newest, the
// one before it.
func (r *Repair) returns() []Return {
	lost := make(map[format.Hash]uint64) // the newest lost record of each name
	gone := make(map[uint64]bool)
	for _, d := range r.Damages {
		for _, l := range d.Lost {
			gone[l.LSN] = true
			if l.LSN >= r.pass.newest[l.Hash].lsn && l.Hash != (format.Hash{}) && r.mended[l.LSN] == nil {
				lost[l.Hash] = max(lost[l.Hash], l.LSN)
			}
		}
	}
	for i := range r.pass.spills {
		if s := &r.pass.spills[i]; r.large[s.id] {
			gone[s.lsn] = true
		}
	}
	before := make(map[format.Hash]*kept)
	for i := range r.pass.kept {
		if e := &r.pass.kept[i]; lost[e.hash] > e.lsn && !gone[e.lsn] {
			before[e.hash] = e
		}
	}
	all := []Return{}
	for hash, e := range before {
		all = append(all, Return{LSN: e.lsn, Hash: hash, Name: r.pass.nameOf(r.pass.place(e)), Lost: lost[hash]})
	}
	slices.SortFunc(all, func(x, y Return) int { return int(x.Lost) - int(y.Lost) })
	return all
}

// roundsMax bounds how often a partition is repaired: what is lost may show that
// more is.
const roundsMax = 16

// Run does it, and adds to r what it finds meanwhile. Whatever it takes away is
// kept in the quarantine directory, which it makes. The caller holds the device's
// lock. A crash leaves each segment either as it was or repaired, and links to
// files in quarantine; it can be run again.
func (r *Repair) Run(quarantine string) error {
	if r.isDone() {
		return nil
	}
	files := r.pass.files
	if err := vfs.MakeDirectories(files.FS, files.Root, quarantine); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	for next, n := r, 1; !next.isDone(); n++ {
		if n > roundsMax {
			return fmt.Errorf("bundle: %s is still damaged after %d rounds: %v", r.pass.directory(), roundsMax, next.Damages)
		}
		if err := next.round(quarantine); err != nil {
			return err
		}
		var err error
		if next, err = PlanRepair(files, r.pass.id); err != nil {
			return err
		}
		next.Erase(r.erased)
		r.Damages = append(r.Damages, next.Damages...)
		r.Rewrite, r.Returns = append(r.Rewrite, next.Rewrite...), append(r.Returns, next.Returns...)
	}
	return nil
}

func (r *Repair) round(quarantine string) error {
	if err := errors.Join(r.renewCopies(), r.quarantineLarge(quarantine)); err != nil {
		return err
	}
	for i := range r.pass.segments {
		if s := &r.pass.segments[i]; r.isDamaged(s) {
			if err := r.rewrite(s, quarantine); err != nil {
				return err
			}
		}
	}
	return r.pass.files.FS.SyncDir(r.pass.directory())
}

// renewCopies writes the extended attributes of large files anew that are not
// those of their records.
func (r *Repair) renewCopies() error {
	for i := range r.Damages {
		d := &r.Damages[i]
		if !isCopy(d) || r.large[uint64(d.LargeID)] {
			continue
		}
		at := slices.IndexFunc(r.pass.spills, func(s spill) bool {
			return s.id == uint64(d.LargeID) && int64(s.unit)*format.UnitSize == d.Offset
		})
		if err := r.renewCopy(&r.pass.spills[at]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repair) renewCopy(s *spill) error {
	record, buffer, err := r.pass.recordOf(s.place())
	if err != nil {
		return err
	}
	defer buffer.Free()
	m, err := record.Metadata()
	if err != nil {
		return err
	}
	file, err := r.pass.view.OpenLarge(s.id)
	if err != nil {
		return err
	}
	return errors.Join(bundle.WriteCopy(file, m), file.Datasync(), file.Close())
}

// keep gives a file a name in quarantine as well.
func (r *Repair) keep(file vfs.File, name, quarantine string) error {
	files := r.pass.files.FS
	err := files.Link(file, filepath.Join(quarantine, filepath.Base(name)))
	if err == nil {
		err = files.SyncDir(quarantine)
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// quarantineLarge moves the large files away that no good record names. Without
// damage the next opening removes such files.
func (r *Repair) quarantineLarge(quarantine string) error {
	v := r.pass.view
	all, err := v.LargeFiles()
	if err != nil {
		return err
	}
	good := make(map[uint64]bool)
	for _, s := range r.pass.spills {
		good[s.id] = true
	}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		id := all[path]
		if good[id] && !r.large[id] {
			continue
		}
		file, err := v.OpenLarge(id)
		if err != nil {
			return err
		}
		err = r.keep(file, path, quarantine)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		v.RemoveLarge(id)
	}
	return nil
}

// rewrite replaces a segment by its next generation, which has the good records
// with their LSNs and is sealed.
func (r *Repair) rewrite(s *passed, quarantine string) error {
	p := r.pass
	names, err := p.generations(s.file.Sequence, s.file.Through)
	if err != nil {
		return err
	}
	highest := s.file.Generation
	for _, name := range names {
		_, generation, _ := format.ParseSegmentName(name)
		highest = max(highest, generation)
		if err := r.keepSegment(name, quarantine); err != nil {
			return err
		}
	}
	if highest == math.MaxUint32 {
		return fmt.Errorf("bundle: no generation is left for segment %08x in %s", s.file.Sequence, p.directory())
	}
	file, temporary, err := r.create(quarantine)
	if err != nil {
		return err
	}
	defer file.Close() // its bytes are flushed
	if err := r.copy(file, s, highest+1); err != nil {
		return err
	}
	if err := p.files.FS.Link(file, filepath.Join(p.directory(), format.SegmentName(s.file.Sequence, highest+1))); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if err := p.files.FS.SyncDir(p.directory()); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if temporary != "" {
		_ = p.files.FS.Remove(temporary) // in quarantine it does no harm
	}
	for _, name := range names {
		if err := p.files.FS.Remove(filepath.Join(p.directory(), name)); err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	return nil
}

func (r *Repair) keepSegment(name, quarantine string) error {
	sequence, generation, _ := format.ParseSegmentName(name)
	file, release, err := r.pass.view.Open(sequence, generation)
	if err != nil {
		return err
	}
	defer release()
	return r.keep(file, name, quarantine)
}

// create makes a file for a segment; it has a temporary name where files cannot
// be without one.
func (r *Repair) create(quarantine string) (file vfs.File, temporary string, err error) {
	files := r.pass.files.FS
	file, err = files.CreateTemp(r.pass.directory())
	if errors.Is(err, vfs.ErrNoTemp) {
		temporary = filepath.Join(quarantine, ".segment.tmp")
		if err := files.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("bundle: %w", err)
		}
		file, err = files.Create(temporary)
	}
	if err != nil {
		return nil, "", fmt.Errorf("bundle: %w", err)
	}
	return file, temporary, nil
}

// copy writes the good records of a segment to a file, and a footer, and flushes
// it.
func (r *Repair) copy(file vfs.File, s *passed, generation uint32) error {
	id := r.pass.id
	old, release, err := r.pass.view.Open(s.file.Sequence, s.file.Generation)
	if err != nil {
		return err
	}
	defer release()
	head := format.SegmentHeader{
		Policy: uint32(id.Policy), Partition: id.Partition, Power: id.Power,
		Sequence: s.file.Sequence, Through: s.file.Through, Generation: generation,
		BaseLSN: s.from, Created: uint64(time.Now().UnixMicro() / 10),
	}
	if head.Bundle, err = r.pass.view.Identify(); err != nil {
		return err
	}
	if _, err := rand.Read(head.UUID[:]); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	w := segmentWriter{file: file, salt: head.Salt()}
	w.buffer = append(w.buffer, head.Encode()...)
	scan := newScan(old, &s.file.File, segment.Limit{LSN: s.through + 1, Sure: true}, true)
	defer scan.Close()
	name := format.SegmentName(s.file.Sequence, s.file.Generation)
	for {
		e, err := scan.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if e.Record == nil || !e.Record.Type().Named() || s.file.Inherited && !id.Owns(e.Record.Head.Hash) {
			continue
		}
		p, head, err := r.copied(scan, e, name)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		if err := w.add(p, head); err != nil {
			return err
		}
	}
	return w.finish(head.BaseLSN, s.through, s.file.Through)
}

// copied is what is written of a record of a segment; nil if nothing.
func (r *Repair) copied(scan *Scan, e *Entry, name string) ([]byte, format.Header, error) {
	head := e.Record.Head
	if r.isErased(head.Hash, head.LSN) {
		return nil, head, nil
	}
	if e.Damage == nil && !r.isLost(name, e) {
		p, err := scan.bytes(e)
		return p, head, err
	}
	p := r.mended[head.LSN]
	if p == nil {
		return nil, head, nil
	}
	head, err := format.ParseHeader(p)
	return p, head, err
}
