package inspect

import (
	"errors"
	"fmt"
	"io/fs"

	"martlet/object-server/bundle"
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
func Look(files *bundle.Files, id bundle.ID) (*Survey, error) {
	v, entries, segments, err := recovered(files, id)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	return survey(v, entries, segments)
}

// recovered reads as much of a bundle as opening it does. The caller closes the view.
func recovered(files *bundle.Files, id bundle.ID) (*bundle.View, []bundle.Found, []bundle.Recovered, error) {
	for n := 1; ; n++ {
		v, err := bundle.Look(files, id)
		if err == nil {
			entries, segments, failed := v.Recover()
			if failed == nil {
				return v, entries, segments, nil
			}
			v.Close()
			err = failed
		}
		if !errors.Is(err, fs.ErrNotExist) || n == passesMax {
			return nil, nil, nil, err
		}
		// Compaction has replaced a segment meanwhile.
	}
}

func survey(v *bundle.View, entries []bundle.Found, segments []bundle.Recovered) (*Survey, error) {
	r := v.Report()
	sum := &Survey{TornTails: r.TornTails, Damaged: append([]string{}, r.Damaged...), Segments: make([]SegmentSurvey, len(segments))}
	for i := range segments {
		x, s := &segments[i], &sum.Segments[i]
		size, err := sizeOf(v, x)
		if err != nil {
			return nil, err
		}
		sum.Bytes += size
		*s = SegmentSurvey{
			File: format.SegmentName(x.Sequence, x.Generation), Sequence: x.Sequence, Through: x.Through, Generation: x.Generation,
			BaseLSN: x.Base, LastLSN: x.Last, Bytes: size, Sealed: x.Sealed, Checkpoint: x.Checkpoint,
		}
	}
	for i := range entries {
		sum.count(&entries[i])
	}
	return sum, nil
}

func sizeOf(v *bundle.View, x *bundle.Recovered) (int64, error) {
	file, release, err := v.Open(x.Sequence, x.Generation)
	if err != nil {
		return 0, err
	}
	defer release()
	size, err := file.Size()
	if err != nil {
		return 0, fmt.Errorf("bundle: %w", err)
	}
	return size, nil
}

// count adds a record.
func (v *Survey) count(e *bundle.Found) {
	s := &v.Segments[e.Segment]
	s.Records++
	isVersion := e.IsChained()
	if isVersion {
		v.Versions++
	}
	if !e.IsNewest {
		if !isVersion {
			s.Dead++
			s.DeadBytes += int64(e.Units) * format.UnitSize
			v.DeadBytes += int64(e.Units) * format.UnitSize
		}
		return
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
