package bundle

import (
	"errors"
	"fmt"
	"io/fs"

	"martlet/object-server/bundle/format"
)

// Survey is what a partition holds, as opening it would find.
type Survey struct {
	Segments   []SegmentSurvey `json:"segments"`
	Names      int             `json:"names"`      // of live objects
	Tombstones int             `json:"tombstones"` // names whose newest record is one
	Versioned  int             `json:"versioned"`  // names with versions
	Versions   int             `json:"versions"`   // records of such names
	Large      int             `json:"large"`      // live objects in large files
	TornTails  int             `json:"torn_tails"`
	Damaged    []string        `json:"damaged"`
	Bytes      int64           `json:"bytes"`      // of all segment files
	DeadBytes  int64           `json:"dead_bytes"` // of records that newer ones replace
}

// SegmentSurvey is one segment of it.
type SegmentSurvey struct {
	File       string `json:"file"`
	Sequence   uint32 `json:"sequence"`
	Through    uint32 `json:"through"` // last sequence that it stands for
	Generation uint32 `json:"generation"`
	BaseLSN    uint64 `json:"base_lsn"`
	LastLSN    uint64 `json:"last_lsn"`
	Bytes      int64  `json:"bytes"`
	Sealed     bool   `json:"sealed"`
	Checkpoint int64  `json:"checkpoint"` // offset of the one that opening starts from; 0: none
	Records    int    `json:"records"`    // with a name
	Dead       int    `json:"dead"`       // replaced by newer ones
	DeadBytes  int64  `json:"dead_bytes"`
}

// Look reads as much of a partition as opening it does, and changes nothing. The
// partition may be in use.
func Look(files *Files, id ID) (*Survey, error) {
	b, entries, err := recovered(files, id)
	defer b.index.Free()
	if err != nil {
		return nil, err
	}
	return b.survey(entries)
}

// recovered opens a bundle without changing anything; the caller frees its index.
// The bundle may be in use.
func recovered(files *Files, id ID) (*Bundle, []found, error) {
	for n := 1; ; n++ {
		b := newBundle(files, id, Config{})
		b.readOnly = true
		entries, err := b.recover()
		if !errors.Is(err, fs.ErrNotExist) || n == passesMax {
			return b, entries, err
		}
		b.index.Free() // compaction has replaced a segment meanwhile
	}
}

func (b *Bundle) survey(entries []found) (*Survey, error) {
	v := &Survey{TornTails: b.report.TornTails, Damaged: append([]string{}, b.report.Damaged...)}
	segments := make(map[*openSegment]*SegmentSurvey)
	for _, s := range b.segments.table {
		key := s.key(b.id)
		file, err := b.files.get(key)
		if err != nil {
			return nil, err
		}
		size, err := file.Size()
		file.release()
		if err != nil {
			return nil, fmt.Errorf("bundle: %w", err)
		}
		v.Bytes += size
		v.Segments = append(v.Segments, SegmentSurvey{
			File: format.SegmentName(s.sequence, s.generation), Sequence: s.sequence, Through: s.through, Generation: s.generation,
			BaseLSN: s.base, LastLSN: s.last, Bytes: size, Sealed: s.sealed, Checkpoint: int64(s.checkpoint) * format.UnitSize,
		})
	}
	for i, s := range b.segments.table {
		segments[s] = &v.Segments[i]
	}
	for i := range entries {
		e, s := &entries[i], segments[entries[i].segment]
		s.Records++
		isVersion := e.IsChained()
		if isVersion {
			v.Versions++
		}
		if !isNewest(entries, i) {
			if !isVersion {
				s.Dead++
				s.DeadBytes += int64(e.Units) * format.UnitSize
				v.DeadBytes += int64(e.Units) * format.UnitSize
			}
			continue
		}
		switch {
		case e.Type == format.TypeTombstone:
			v.Tombstones++
		case e.Type == format.TypeSpill:
			v.Names, v.Large = v.Names+1, v.Large+1
		default:
			v.Names++
		}
		if isVersion {
			v.Versioned++
		}
	}
	return v, nil
}
