package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// spill is a record that names a large file.
type spill struct {
	hash    format.Hash
	lsn     uint64
	id      uint64
	segment bundle.SegmentFile
	unit    uint32
	units   uint32
}

// large checks the large files that live records of the pass name.
func (p *pass) large() error {
	if len(p.spills) == 0 {
		return nil
	}
	live, err := p.live()
	if err != nil {
		return err
	}
	for i := range p.spills {
		s := &p.spills[i]
		if !live(s) {
			continue
		}
		causes, err := p.checkLarge(s)
		if err != nil {
			return err
		}
		d := bundle.Damage{
			Segment: format.SegmentName(s.segment.Sequence, s.segment.Generation), Offset: int64(s.unit) * format.UnitSize,
			Length: int64(s.units) * format.UnitSize, LargeID: bundle.LargeID(s.id),
		}
		if causes.copy != "" {
			d.Cause = causes.copy
			p.add(d)
		}
		if causes.bytes != "" {
			d.FirstLSN, d.LastLSN, d.Cause = s.lsn, s.lsn, causes.bytes
			d.Lost = []bundle.Lost{{LSN: s.lsn, Hash: s.hash, Name: p.nameOf(s.place())}}
			p.add(d)
		}
	}
	return nil
}

// live tells of SPILL records whether their large files count: of each name that
// of the newest record, or of all live versions. Where damage hides which those
// are, none of the name.
func (p *pass) live() (func(*spill) bool, error) {
	plain := func(s *spill) bool { return p.newest[s.hash].lsn == s.lsn }
	if !slices.ContainsFunc(p.spills, func(s spill) bool { return p.newest[s.hash].versioned }) {
		return plain, nil
	}
	v, _, _, err := recovered(p.files, p.id)
	if format.IsDamage(err) {
		return plain, nil
	}
	if err != nil {
		return nil, err
	}
	defer v.Close()
	names := make(map[format.Hash]map[uint64]bool)
	for i := range p.spills {
		hash := p.spills[i].hash
		if n := p.newest[hash]; n.versioned && names[hash] == nil {
			names[hash], err = v.LiveVersions(hash, n.lsn)
			if err != nil && !errors.Is(err, format.ErrQuarantined) {
				return nil, err
			}
		}
	}
	return func(s *spill) bool {
		if p.newest[s.hash].versioned {
			return names[s.hash][s.lsn]
		}
		return plain(s)
	}, nil
}

// largeDamage is what is wrong with a large file; empty where nothing is.
type largeDamage struct {
	bytes string // the object cannot be read
	copy  string // only the copy of its metadata is not as it should be
}

// checkLarge compares a large file with its record: the bytes with the chunk
// table, the extended attributes with the metadata.
func (p *pass) checkLarge(s *spill) (d largeDamage, err error) {
	file, err := p.view.OpenLarge(s.id)
	if errors.Is(err, fs.ErrNotExist) {
		d.bytes = fmt.Sprintf("large file %016x is missing", s.id)
		return d, nil
	}
	if err != nil {
		d.bytes = fmt.Sprintf("large file %016x: %v", s.id, err)
		return d, nil
	}
	defer file.Close()
	p.verdict.LargeFiles++
	record, buffer, err := p.recordOf(s.place())
	if err != nil {
		return d, err
	}
	defer buffer.Free()
	compare := compareLarge
	if !p.whole {
		compare = compareSize
	}
	if err := compare(file, record); err != nil {
		d.bytes = fmt.Sprintf("large file %016x: %v", s.id, err)
	}
	if err := compareCopy(file, record); err != nil {
		d.copy = fmt.Sprintf("large file %016x: extended attributes: %v", s.id, err)
	}
	return d, nil
}

// copyFits is a length of metadata, in bytes, that fits into the extended
// attributes of every file system that has them. See bundle.WriteCopy.
const copyFits = 1 << 10

// compareCopy compares the extended attributes of a large file with the metadata
// of its record. None at all is right where the file system takes none, or so many
// may not have fitted. They follow a POST without a flush, so that a crash may
// leave what was before it.
func compareCopy(file vfs.File, record *format.Record) error {
	encoded, err := bundle.ReadCopy(file)
	switch {
	case errors.Is(err, vfs.ErrXattrUnsupported):
		return nil
	case errors.Is(err, vfs.ErrNoXattr) && len(record.EncodedMetadata) > copyFits:
		return nil
	case errors.Is(err, vfs.ErrNoXattr):
		return fmt.Errorf("%w: they are missing", format.ErrDamaged)
	}
	if err != nil {
		return err
	}
	found, err := format.DecodeMetadata(encoded)
	if err != nil {
		return err
	}
	m, err := record.Metadata()
	if err == nil && (found.Name != m.Name || found.Timestamp != m.Timestamp || found.Size != m.Size) {
		err = fmt.Errorf("%w: they are of %q at %s", format.ErrDamaged, found.Name, found.Timestamp)
	}
	return err
}

// pieceBytes are read or written at once.
const pieceBytes = 1 << 20

// compareSize compares the size of a large file with that in its record.
func compareSize(file vfs.File, record *format.Record) error {
	size, err := file.Size()
	if err == nil && size != record.Size() {
		err = fmt.Errorf("%w: it has %d bytes, its record says %d", format.ErrDamaged, size, record.Size())
	}
	return err
}

// compareLarge reads a large file and compares it with its record.
func compareLarge(file vfs.File, record *format.Record) error {
	buffer := buffers.Get(pieceBytes)
	defer buffer.Free()
	size := record.Size()
	for at := int64(0); at < size; at += pieceBytes {
		p := buffer.B[:min(pieceBytes, size-at)]
		if err := segment.ReadFull(file, p, at); err != nil {
			return err
		}
		for i := 0; i*format.ChunkSize < len(p); i++ {
			chunk := p[i*format.ChunkSize : min((i+1)*format.ChunkSize, len(p))]
			if err := record.CheckChunk(int(at/format.ChunkSize)+i, chunk); err != nil {
				return err
			}
		}
	}
	if n, _ := file.ReadAt(buffer.B[:1], size); n != 0 {
		return fmt.Errorf("%w: longer than its record says", format.ErrDamaged)
	}
	return nil
}
