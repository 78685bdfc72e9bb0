package device

import (
	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// RawRecord is a record as it goes from one replica to another.
type RawRecord struct {
	Bytes []byte   // as in the log, from its header to its padding
	Large vfs.File // the object, of a SPILL; nil of all others
}

// Export visits what a peer needs that has everything up to a position: records that
// count, in the order in which they lie. After a position of another bundle, or the
// zero one, that is all. want leaves out what it does not take, without reading it;
// nil takes all. A record and its large file are valid until visit returns. It ends
// with the first error of visit. The answer says how far a peer is that has stored
// all of it, unless something was skipped.
func (r Replica) Export(since bundle.Position, want func(e *format.Entry) bool, visit func(RawRecord) error) (done bundle.Exported, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		from := since.LSN
		if since.Bundle != b.Identity() {
			from = 0
		}
		var missing int
		done, err = b.Export(from, want, func(p []byte, record *format.Record) error {
			raw := RawRecord{Bytes: p}
			if record.Type() == format.TypeSpill {
				large, err := b.OpenLarge(record.LargeID)
				if err != nil { // a newer write may have removed it; then the next export has that
					missing++
					return nil
				}
				defer large.Close()
				raw.Large = large
			}
			return visit(raw)
		})
		done.Skipped += missing
		return err
	})
	return done, err
}
