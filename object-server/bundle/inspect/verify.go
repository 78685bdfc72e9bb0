package inspect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
)

// Verdict is what Verify found in a partition.
type Verdict struct {
	Damages    []bundle.Damage
	Segments   int
	Records    int
	LargeFiles int
	TornTails  int // segments that end with bytes that were never acknowledged: no damage
}

// passesMax bounds how often a partition is read that is being changed.
const passesMax = 6

// Verify reads all of a partition and checks every checksum in it; only a segment
// of one file name if that is not empty. It changes nothing and takes no lock: the
// partition may be in use. So what one pass finds may be a write or a compaction
// that it met half way, and only what a second one finds too is damage.
func Verify(files *bundle.Files, id bundle.ID, only string) (*Verdict, error) {
	return verify(files, id, only, true)
}

// VerifyHeads is Verify without the bytes of objects: it checks headers, metadata, footers
// and checkpoints, and of large files the size and the extended attributes.
func VerifyHeads(files *bundle.Files, id bundle.ID) (*Verdict, error) {
	return verify(files, id, "", false)
}

func verify(files *bundle.Files, id bundle.ID, only string, whole bool) (*Verdict, error) {
	p, err := newPass(files, id, only, whole)
	if err != nil {
		return nil, err
	}
	for n, isNew := 0, len(p.verdict.Damages) > 0; isNew && n < passesMax; n++ {
		before := p.verdict.Damages
		if p, err = newPass(files, id, only, whole); err != nil {
			return nil, err
		}
		confirmed := slices.DeleteFunc(slices.Clone(p.verdict.Damages), func(d bundle.Damage) bool {
			return !slices.ContainsFunc(before, func(e bundle.Damage) bool { return isSame(&d, &e) })
		})
		if isNew = len(confirmed) < len(p.verdict.Damages); !isNew || n+1 == passesMax {
			p.verdict.Damages = confirmed
		}
	}
	return &p.verdict, nil
}

// isSame tells whether two passes have met the same damage.
func isSame(d, e *bundle.Damage) bool {
	return d.Segment == e.Segment && d.Offset == e.Offset && d.FirstLSN == e.FirstLSN && d.LargeID == e.LargeID
}

// pass is one reading of a partition from its first segment to its last.
type pass struct {
	files    *bundle.Files
	id       bundle.ID
	whole    bool         // the bytes of objects are read
	view     *bundle.View // the records in it are not read through its index
	verdict  Verdict
	segments []passed
	newest   map[format.Hash]newest // record of each name
	kept     []kept                 // each good record with a name
	broken   []broken               // each damaged one whose header is good
	spills   []spill
	torn     map[string]bool // segments
	proven   uint64
	floor    uint64 // see bundle.Files.Floor
}

// passed is a segment as a pass has met it.
type passed struct {
	file    bundle.SegmentFile
	from    uint64 // first LSN that it is responsible for
	through uint64 // last one
}

// newest is the last record of a name, good or not.
type newest struct {
	lsn       uint64
	versioned bool // the name has versions
}

// kept is a good record.
type kept struct {
	hash format.Hash
	newest
	segment int // index in the pass
	unit    uint32
	units   uint32
}

// recordPlace is where a record lies.
type recordPlace struct {
	file        *bundle.SegmentFile
	unit, units uint32
}

func (p *pass) place(k *kept) recordPlace {
	return recordPlace{&p.segments[k.segment].file, k.unit, k.units}
}

func (s *spill) place() recordPlace { return recordPlace{&s.segment, s.unit, s.units} }

// read reads so many bytes of a segment. A bad sector is a format.ErrDamaged.
func (p *pass) read(of *bundle.SegmentFile, offset int64, length int) (*buffers.Buffer, error) {
	file, release, err := p.view.Open(of.Sequence, of.Generation)
	if err != nil {
		return nil, err
	}
	defer release()
	buffer := buffers.Get(length)
	if err := segment.ReadSpan(file, buffer.B, offset); err != nil {
		buffer.Free()
		return nil, fmt.Errorf("%s: %w", p.path(of), err)
	}
	return buffer, nil
}

// directory is that of the partition.
func (p *pass) directory() string { return p.files.Directory(p.id) }

// path is where a segment lies.
func (p *pass) path(of *bundle.SegmentFile) string {
	return filepath.Join(p.directory(), format.SegmentName(of.Sequence, of.Generation))
}

// recordOf reads a whole record.
func (p *pass) recordOf(at recordPlace) (*format.Record, *buffers.Buffer, error) {
	buffer, err := p.read(at.file, int64(at.unit)*format.UnitSize, int(at.units)*format.UnitSize)
	if err != nil {
		return nil, nil, err
	}
	record, err := format.ParseRecord(buffer.B)
	if err != nil {
		buffer.Free()
		return nil, nil, err
	}
	return record, buffer, nil
}

// nameOf reads the name of a record; empty if that cannot be told.
func (p *pass) nameOf(at recordPlace) string {
	record, buffer, err := p.recordOf(at)
	if err != nil {
		return ""
	}
	defer buffer.Free()
	m, err := record.Metadata()
	if err != nil {
		return ""
	}
	return m.Name
}

func newPass(files *bundle.Files, id bundle.ID, only string, whole bool) (*pass, error) {
	for range passesMax {
		p := &pass{files: files, id: id, whole: whole, newest: make(map[format.Hash]newest), torn: make(map[string]bool)}
		err := p.run(only)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return p, err
		}
	}
	return nil, fmt.Errorf("bundle: segments of %s vanish while they are read", files.Directory(id))
}

func (p *pass) add(d bundle.Damage) { p.verdict.Damages = append(p.verdict.Damages, d) }

// addUnreadable adds what the disk cannot read: it may have been acknowledged, and so
// may all before it.
func (p *pass) addUnreadable(d bundle.Damage) {
	p.add(d)
	p.proven = max(p.proven, d.LastLSN)
}

func (p *pass) run(only string) error {
	var err error
	p.view, err = bundle.Look(p.files, p.id)
	if errors.Is(err, format.ErrUnsupported) {
		p.add(bundle.Damage{Cause: err.Error(), Final: true})
		return nil
	}
	if err != nil {
		return err
	}
	if only == "" {
		p.floor = p.view.Floor
		p.proven = p.floor
	}
	files := p.view.Segments
	expected := uint64(1)
	for i := range files {
		f, bound := &files[i], bundle.Boundary(files[i+1:])
		if i+1 < len(files) && only == "" {
			p.prefetch(&files[i+1])
		}
		if err := p.newer(f); err != nil {
			return err
		}
		switch {
		case f.IsBlank():
			expected = p.blank(f, expected, bound)
			continue
		case f.Headless && bound.LSN <= f.Base: // void
			continue
		case bound.LSN < f.Base || f.Base < expected:
			p.add(bundle.Damage{Segment: format.SegmentName(f.Sequence, f.Generation), Final: true, Cause: "base LSNs of the segments do not ascend"})
			return nil
		case p.floor < expected && f.IsUnfinished(expected, bound):
			p.torn[format.SegmentName(f.Sequence, f.Generation)] = true
			continue
		}
		if f.Base > expected {
			p.add(bundle.Damage{FirstLSN: expected, LastLSN: f.Base - 1, Unnamed: f.Base - expected, Cause: fmt.Sprintf(
				"no segment before %s holds them", format.SegmentName(f.Sequence, f.Generation))})
		}
		next := max(expected, f.Base)
		if bound.Sure {
			p.proven = max(p.proven, bound.LSN-1)
		}
		if name := format.SegmentName(f.Sequence, f.Generation); only == "" || only == name {
			if next, err = p.segment(f, bound); err != nil {
				return err
			}
		} else if bound.Sure {
			next = bound.LSN
		}
		p.segments = append(p.segments, passed{*f, expected, next - 1})
		expected = max(expected, next)
	}
	p.checkEnd(expected)
	p.dropVoid()
	p.verdict.TornTails = len(p.torn)
	if only != "" {
		if err := p.find(); err != nil {
			return err
		}
	}
	if err := p.large(); err != nil {
		return err
	}
	p.nameLost()
	return nil
}

// checkEnd reports records that are known to have been acknowledged and would lie
// behind the last segment. Repair makes that one stand for them.
func (p *pass) checkEnd(expected uint64) {
	if expected > p.floor {
		return
	}
	d := bundle.Damage{FirstLSN: expected, LastLSN: p.floor, Unnamed: p.floor - expected + 1, Cause: "no segment holds them"}
	if n := len(p.segments); n > 0 {
		last := &p.segments[n-1]
		d.Segment, d.Offset = format.SegmentName(last.file.Sequence, last.file.Generation), last.file.Size
		last.through = p.floor
	} else {
		d.Final = true
	}
	p.add(d)
}

// blank notes the loss of a segment that cannot be read at all, and returns the LSN
// behind it.
func (p *pass) blank(f *bundle.SegmentFile, expected uint64, bound segment.Limit) uint64 {
	next := f.LostBlank(expected, bound)
	if next > expected {
		p.addUnreadable(bundle.Damage{
			Segment: format.SegmentName(f.Sequence, f.Generation), Length: f.Size, FirstLSN: expected, LastLSN: next - 1,
			Unnamed: next - expected, Cause: "nothing of it can be read",
		})
		p.segments = append(p.segments, passed{*f, expected, next - 1})
	}
	return next
}

// nameLost names lost records by older ones of the same name.
func (p *pass) nameLost() {
	names := make(map[format.Hash]string)
	each := func(use func(l *bundle.Lost)) {
		for _, d := range p.verdict.Damages {
			for i := range d.Lost {
				if l := &d.Lost[i]; l.Name == "" && l.Hash != (format.Hash{}) {
					use(l)
				}
			}
		}
	}
	each(func(l *bundle.Lost) { names[l.Hash] = "" })
	for i := len(p.kept) - 1; i >= 0 && len(names) > 0; i-- {
		if name, ok := names[p.kept[i].hash]; ok && name == "" {
			names[p.kept[i].hash] = p.nameOf(p.place(&p.kept[i]))
		}
	}
	each(func(l *bundle.Lost) { l.Name = names[l.Hash] })
}

// prefetcher is a file system that can read the start of a file before it is
// opened.
type prefetcher interface{ Prefetch(name string) }

func (p *pass) prefetch(f *bundle.SegmentFile) {
	if fs, ok := p.files.FS.(prefetcher); ok {
		fs.Prefetch(p.path(f))
	}
}

// newer reports generations of a segment that are not used because they have no
// footer.
func (p *pass) newer(f *bundle.SegmentFile) error {
	names, err := p.generations(f.Sequence, f.Sequence)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, generation, _ := format.ParseSegmentName(name); generation > f.Generation {
			p.add(bundle.Damage{
				Segment: format.SegmentName(f.Sequence, f.Generation), Cause: "its later generation " + name + " has no footer and is not used",
			})
		}
	}
	return nil
}

// generations lists the files of sequences from first to last.
func (p *pass) generations(first, last uint32) ([]string, error) {
	entries, err := p.files.FS.ReadDir(p.directory())
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if s, _, ok := format.ParseSegmentName(entry.Name()); ok && first <= s && s <= last {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// segment reads one segment and returns the LSN behind it.
func (p *pass) segment(f *bundle.SegmentFile, bound segment.Limit) (uint64, error) {
	file, release, err := p.view.Open(f.Sequence, f.Generation)
	if err != nil {
		return 0, err
	}
	defer release()
	s := newScan(file, &f.File, bound, p.whole)
	defer s.Close()
	s.walker.Acknowledged(p.floor)
	for {
		e, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		switch {
		case e.Damage == nil:
		case e.unreadable:
			p.addUnreadable(*e.Damage)
		default:
			p.add(*e.Damage)
		}
		if e.Record != nil {
			p.record(f, e)
		}
	}
	p.verdict.Segments++
	p.proven = max(p.proven, s.walker.Proven())
	if s.torn {
		p.torn[s.name] = true
	}
	if s.walker.Limit().Sure {
		return max(s.walker.Next().LSN, s.walker.Limit().LSN), nil
	}
	return s.walker.Next().LSN, nil
}

// find learns the newest record of each name without reading the other segments.
func (p *pass) find() error {
	v, entries, _, err := recovered(p.files, p.id)
	if format.IsDamage(err) { // told already
		return nil
	}
	if err != nil {
		return err
	}
	defer v.Close()
	for i := range entries {
		e := &entries[i]
		p.newest[e.Hash] = newest{e.LSN, e.Flags&(format.FlagVersions>>8) != 0}
	}
	return nil
}

func (p *pass) record(f *bundle.SegmentFile, e *Entry) {
	h := &e.Record.Head
	if !h.Type.Named() || f.Inherited && !p.id.Owns(h.Hash) {
		return
	}
	p.verdict.Records++
	own := newest{h.LSN, h.Flags&format.FlagVersions != 0}
	p.newest[h.Hash] = own
	if e.Damage == nil {
		p.kept = append(p.kept, kept{h.Hash, own, len(p.segments), uint32(e.Offset / format.UnitSize), h.Units})
	} else {
		p.broken = append(p.broken, broken{*h, *f, e.Offset})
	}
	if h.Type == format.TypeSpill && e.Damage == nil {
		p.spills = append(p.spills, spill{
			hash: h.Hash, lsn: h.LSN, id: e.Record.LargeID, segment: *f, unit: uint32(e.Offset / format.UnitSize),
			units: h.Units,
		})
	}
}

// dropVoid forgets damage to records that nothing proves acknowledged: opening
// ends the log there.
func (p *pass) dropVoid() {
	void, segment := uint64(0), ""
	p.verdict.Damages = slices.DeleteFunc(p.verdict.Damages, func(d bundle.Damage) bool {
		if d.FirstLSN <= p.proven || d.Final || d.Segment == "" {
			return false
		}
		if void == 0 || d.FirstLSN < void {
			void, segment = d.FirstLSN, d.Segment
		}
		return true
	})
	if void == 0 {
		return
	}
	p.torn[segment] = true
	last := &p.segments[len(p.segments)-1]
	last.through = min(last.through, void-1)
	p.spills = slices.DeleteFunc(p.spills, func(s spill) bool { return s.lsn >= void })
	p.kept = slices.DeleteFunc(p.kept, func(k kept) bool { return k.lsn >= void })
	maps.DeleteFunc(p.newest, func(_ format.Hash, n newest) bool { return n.lsn >= void })
	for _, k := range p.kept {
		if p.newest[k.hash].lsn < k.lsn {
			p.newest[k.hash] = k.newest
		}
	}
}
