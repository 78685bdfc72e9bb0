package device

import "sync/atomic"

// Stats counts since Open.
type Stats struct {
	Puts          uint64 // PUTs acknowledged
	Deletes       uint64 // DELETEs acknowledged
	Posts         uint64 // POSTs acknowledged
	Reads         uint64 // objects and metadata read
	Batches       uint64 // groups of writes that were flushed together
	Flushes       uint64 // fdatasync, fsync and syncfs calls
	BytesReceived uint64 // bodies of PUTs acknowledged
	BytesWritten  uint64 // to segments and large files, with headers and padding
	Quarantined   uint64 // damaged records and extents met
	IndexBytes    uint64 // memory of the indexes off the Go heap, now
	VersionBytes  uint64 // memory of what look-ups have read of names with versions, now
	RecordBytes   uint64 // in the segments of the partitions opened so far, now
	LiveBytes     uint64 // of these, what counts; versions that were removed before the start are estimated

	FreeBytes    uint64 // on the file system, when last looked
	ReserveBytes uint64 // that PUTs and POSTs leave free
	Full         bool   // PUTs are refused
	SwiftFiles   bool   `json:"-"` // the device has files of OpenStack Swift, which are not served
	Refusals     uint64 // of writes, for want of room

	Compactions         uint64 // runs of segments rewritten into one
	BytesCompacted      uint64 // records that were copied for that
	SegmentsRemoved     uint64 // replaced by compaction
	TombstonesReclaimed uint64
	VersionsReclaimed   uint64 // removed or replaced, whose data are gone
}

type counters struct {
	puts, deletes, posts, reads, batches, flushes, bytesReceived, bytesWritten, quarantined atomic.Uint64

	compactions, bytesCompacted, segmentsRemoved, tombstonesReclaimed, versionsReclaimed atomic.Uint64
}

// Stats returns the counters of the device.
func (d *Device) Stats() Stats {
	c := &d.counters
	var live, all int64
	for _, b := range d.bundles.all() {
		bundleLive, bundleAll := b.Bytes()
		live, all = live+bundleLive, all+bundleAll
	}
	_, _ = d.room.look() // if it fails, what is known stays
	d.room.mu.Lock()
	defer d.room.mu.Unlock()
	return Stats{
		SwiftFiles: d.swiftFiles,
		FreeBytes:  uint64(d.room.free), ReserveBytes: uint64(d.room.margin + d.room.floor), Full: d.room.isFull, Refusals: d.room.refusals,
		RecordBytes: uint64(all), LiveBytes: uint64(max(live, 0)),
		Puts: c.puts.Load(), Deletes: c.deletes.Load(), Posts: c.posts.Load(), Reads: c.reads.Load(),
		Batches: c.batches.Load(), Flushes: c.flushes.Load(), BytesReceived: c.bytesReceived.Load(), BytesWritten: c.bytesWritten.Load(),
		Quarantined: c.quarantined.Load(), IndexBytes: uint64(d.files.IndexBytes()), VersionBytes: uint64(d.versions.Bytes()),
		Compactions: c.compactions.Load(), BytesCompacted: c.bytesCompacted.Load(),
		SegmentsRemoved: c.segmentsRemoved.Load(), TombstonesReclaimed: c.tombstonesReclaimed.Load(), VersionsReclaimed: c.versionsReclaimed.Load(),
	}
}
