package bundle

import (
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
)

// Record is a record read back, with what the bundle knows of it. Its parts point
// into the bytes it was parsed from.
type Record struct {
	format.Record
	slot     index.Slot // where it lies; 0 if it was not found through an index
	doubtful bool       // good, but what was written later may be lost; see Doubtful
	chained  bool       // the header is damaged, and the name has, or may have, versions
}

// bare is the record without what points into a buffer.
func (r *Record) bare() *Record {
	return &Record{Record: format.Record{Head: r.Head}, slot: r.slot, doubtful: r.doubtful, chained: r.chained}
}

// Doubtful tells whether records were lost that were written later than this one:
// one of them may have replaced or deleted it. Else it is the newest of its name.
func (r *Record) Doubtful() bool { return r.doubtful }

// MarkDoubtful is for a version that was found through a record or chain that is.
func (r *Record) MarkDoubtful() { r.doubtful = true }

// Versioned tells whether the name has or had other versions than this, or may
// have where that cannot be told.
func (r *Record) Versioned() bool { return r.Record.Versioned() || r.chained }

// IsHead tells whether the record was found as the newest of its name, not as a
// version.
func (r *Record) IsHead() bool { return r.slot != 0 }

// Metadata decodes the metadata.
func (r *Record) Metadata() (*format.Metadata, error) {
	m, err := r.Record.Metadata()
	if err == nil {
		m.Versioned, m.Doubtful = r.Versioned(), r.doubtful
	}
	return m, err
}
