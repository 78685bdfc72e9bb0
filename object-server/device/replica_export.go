package device

import (
	"fmt"
	"io"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
)

// RawRecord is a record as it goes from one replica to another.
type RawRecord struct {
	Bytes []byte // as in the log, from its header to its padding
	Large Large  // the object, of a SPILL; nil of all others
	// Offset of the time under which Import stores a version, if it is greater than its own. It was moved to another policy and
	// comes back, so it must be later than its removal; see doc/formats/replication.md, "Moves between policies".
	Offset uint64
}

// Large has the bytes of a large object. Import reads them once, from the first to the last.
type Large interface {
	io.ReaderAt
	Size() (int64, error)
}

// Export visits what a peer needs that has everything up to a position: records that
// count, in the order in which they lie. After a position of another bundle, or the
// zero one, that is all. want leaves out what it does not take, without reading it;
// nil takes all. A record and its large file are valid until visit returns. It ends
// with the first error of visit. The answer says how far a peer is that has stored
// all of it, unless something was skipped.
//
// While visit runs nothing waits for it but the room of what compaction replaces. If
// the partition is split, repaired or dropped meanwhile, the export ends with
// ErrChanged; if the device is closed, with ErrClosed.
func (r Replica) Export(since bundle.Position, want func(e *format.Entry) bool, visit func(RawRecord) error) (done bundle.Exported, err error) {
	return r.export(since, want, false, visit)
}

// ExportHeads is Export of header, version block and metadata of each record. Nothing else of it is read.
func (r Replica) ExportHeads(since bundle.Position, want func(e *format.Entry) bool, visit func(RawRecord) error) (bundle.Exported, error) {
	return r.export(since, want, true, visit)
}

func (r Replica) export(since bundle.Position, want func(e *format.Entry) bool, heads bool, visit func(RawRecord) error) (done bundle.Exported, err error) {
	x := export{device: r.device}
	if err := x.device.enter(); err != nil {
		return done, err
	}
	defer x.end()
	if x.partition, err = r.opened(false); err != nil || x.partition == nil {
		return done, err
	}
	b, from := x.partition.bundle, since.LSN
	if since.Bundle != b.Identity() {
		from = 0
	}
	var missing int
	read := b.Export
	if heads {
		read = b.ExportHeads
	}
	done, err = read(from, want, func(p []byte, record *format.Record) error {
		raw := RawRecord{Bytes: p}
		if record.Type() == format.TypeSpill && !heads {
			large, err := b.OpenLarge(record.LargeID)
			if err != nil { // a newer write may have removed it; then the next export has that
				missing++
				return nil
			}
			defer large.Close()
			raw.Large = large
		}
		return x.outside(b, func() error { return visit(raw) })
	})
	done.Skipped += missing
	return done, err
}

// export is what an Export holds while it reads.
type export struct {
	device    *Device
	partition *partition // nil: it is not held
	isOutside bool       // nothing is held: the device was closed
}

// outside calls visit, which may take as long as a network, without what others wait
// for. What has been read stays open. Afterwards the bundle must be what it was.
func (x *export) outside(b *bundle.Bundle, visit func() error) error {
	held := x.partition
	held.done()
	x.partition, x.isOutside = nil, true
	x.device.gate.RUnlock()
	err := visit()
	if closed := x.device.enterGate(); closed != nil {
		return closed
	}
	x.isOutside = false
	held.use.RLock()
	x.partition = held
	if err == nil && b.Retired() {
		err = fmt.Errorf("%w: it was split, repaired or dropped during the export", ErrChanged)
	}
	return err
}

func (x *export) end() {
	if x.partition != nil {
		x.partition.done()
	}
	if x.isOutside {
		x.device.operations.leave()
	} else {
		x.device.leave()
	}
}

// Locate tells where the records lie that Export would visit, for a process that reads
// them itself, with bundle.ReadOutside in Directory. The position and what was skipped
// are those of Export.
func (r Replica) Locate(since bundle.Position, want func(e *format.Entry) bool) (all []bundle.Located, done bundle.Exported, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		from := since.LSN
		if since.Bundle != b.Identity() {
			from = 0
		}
		return r.device.longCalls.during(func() (err error) {
			all, done, err = b.Locate(from, want)
			return err
		})
	})
	return all, done, err
}
