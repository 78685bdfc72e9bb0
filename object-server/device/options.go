package device

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device/journal"
)

// SyncMethod chooses how a batch is made durable.
type SyncMethod string

// The methods of Options.SyncMethod.
const (
	// SyncAuto is fdatasync for a batch that touches one existing file, else
	// syncfs, which flushes other programs' data too: several fdatasync in a row cost
	// several journal commits.
	SyncAuto SyncMethod = "auto"
	// SyncFdatasync flushes each touched file and directory.
	SyncFdatasync SyncMethod = "fdatasync"
	// SyncDirect appends past the page cache, in sectors instead of pages, where
	// the file system can, and flushes as SyncAuto.
	SyncDirect SyncMethod = "direct"
	// SyncJournal writes each batch to a journal as well and flushes that alone;
	// the segments are flushed later, many batches at once.
	SyncJournal SyncMethod = "journal"
)

// SyncMethods lists them all.
var SyncMethods = []SyncMethod{SyncAuto, SyncFdatasync, SyncDirect, SyncJournal}

// Options tunes a Device; the zero value of each field stands for its default.
type Options struct {
	SyncMethod   SyncMethod    // default SyncAuto
	JournalBytes int64         // size of the journal, for SyncJournal; default 256 MiB
	CommitDelay  time.Duration // how long a flush waits for more writers while they come in groups; default 0
	SpillBytes   int64         // larger objects get a file of their own; default 1 MiB, at most 32 MiB
	SegmentBytes int64         // size limit of a segment; default 1 GiB, which is the most; 1/128 of a small device, if that is more than 1 MiB
	// CheckpointBytes of records in a segment make its index be written down, so that opening reads less; default 64 MiB.
	CheckpointBytes int64
	CompactionRate  int64         // bytes a second that compaction copies beside what clients write; default 16 MiB, -1 no limit
	CompactionRound time.Duration // how often unused partitions are looked at; default 24 h
	ReclaimAge      time.Duration // tombstones older than this may go, see Replica.SetPeers; default 7 days
	IndexOnDisk     bool          // keeps the index of closed segments in their footers: a read more for each object, 2 bytes of memory instead of 10
	VersionBytes    int64         // memory of what look-ups have read of names with versions; default 64 MiB, -1 none
	RecycledBytes   int64         // emptied segments that wait to be used again, for SyncDirect; default a 64th of the device, -1 none
	OpenFilesMax    int           // segments kept open; default 16384, or half of what ulimit -n allows
	Concurrency     int           // calls to the disk at once for operations, each of which takes a thread while it waits; default 64
	OperationsMax   int           // operations at once, those that wait included; default 1024
	QuarantineAge   time.Duration // large files that opening put into quarantine are removed after it; default 7 days
	ReserveBytes    int64         // refuse PUTs and POSTs when less than this is free; default 0
	ReservePercent  float64       // the same as a share of the file system; default 0
	Logger          *slog.Logger  // for damage met when opening a partition; default slog.Default
	// KeptID is the id under which a null version is kept when a version has been written since; its timestamp is
	// given. Replicas may know it with different offsets of the same ticks, and need the same id for all of them. Default
	// nil: a write without an id replaces the null version wherever it stands.
	KeptID func(format.Timestamp) format.VersionID
	// HiddenID is the id of a delete marker that hides what is older than a DELETE of that time, of a peer that had no
	// versions. Default nil: such a DELETE removes the null version alone.
	HiddenID func(format.Timestamp) format.VersionID
	// Clock tells the time that locks of versions are compared with; default time.Now.
	Clock func() time.Time

	busyAfter  time.Duration // for tests; default busyAfter
	stuckAfter time.Duration // the same

	doubtPatience time.Duration // for tests; default doubtPatience
	noFloor       bool          // nothing is kept for compaction, for tests of other things
	compactByHand bool          // only Compact compacts, for tests that look at the files
	splitByHand   bool          // only Split splits, for tests that do it step by step
	compactShare  float64       // of a run that must be dead, for tests; 0: as usual
}

const (
	journalBytesDefault = 256 << 20
	spillBytesDefault   = 1 << 20
	spillBytesMax       = 32 << 20
	segmentBytesDefault = 1 << 30
	segmentBytesMin     = 4 << 10 // below it nothing is gained
	checkpointDefault   = 64 << 20
	openFilesMost       = 16384
	concurrencyDefault  = 64
	operationsDefault   = 1024
	versionBytesDefault = 64 << 20

	compactionRateDefault  = 16 << 20
	compactionRoundDefault = 24 * time.Hour
	reclaimAgeDefault      = 7 * 24 * time.Hour
	quarantineAgeDefault   = 7 * 24 * time.Hour
)

// openFilesDefault suits one device of a process: a segment for each of many partitions.
func openFilesDefault() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return openFilesMost / 16
	}
	return int(min(limit.Cur/2, openFilesMost))
}

// complete fills in the defaults and checks the limits.
func (o Options) complete() (Options, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.SyncMethod == "" {
		o.SyncMethod = SyncAuto
	}
	if o.JournalBytes == 0 {
		o.JournalBytes = journalBytesDefault
	}
	if o.SpillBytes == 0 {
		o.SpillBytes = spillBytesDefault
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = segmentBytesDefault
	}
	if o.CheckpointBytes == 0 {
		o.CheckpointBytes = checkpointDefault
	}
	if o.VersionBytes == 0 {
		o.VersionBytes = versionBytesDefault
	}
	if o.OpenFilesMax == 0 {
		o.OpenFilesMax = openFilesDefault()
	}
	if o.CompactionRate == 0 {
		o.CompactionRate = compactionRateDefault
	}
	if o.CompactionRound == 0 {
		o.CompactionRound = compactionRoundDefault
	}
	if o.ReclaimAge == 0 {
		o.ReclaimAge = reclaimAgeDefault
	}
	if o.Concurrency == 0 {
		o.Concurrency = concurrencyDefault
	}
	if o.OperationsMax == 0 {
		o.OperationsMax = operationsDefault
	}
	if o.busyAfter == 0 {
		o.busyAfter = busyAfter
	}
	if o.stuckAfter == 0 {
		o.stuckAfter = stuckAfter
	}
	if o.doubtPatience == 0 {
		o.doubtPatience = doubtPatience
	}
	if o.QuarantineAge == 0 {
		o.QuarantineAge = quarantineAgeDefault
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case !slices.Contains(SyncMethods, o.SyncMethod):
		return o, fmt.Errorf("%w: sync method %q", ErrInvalid, o.SyncMethod)
	case o.JournalBytes < journal.BytesMin || o.JournalBytes > journal.BytesMax:
		return o, fmt.Errorf("%w: journal of %d bytes", ErrInvalid, o.JournalBytes)
	case o.SpillBytes < 0 || o.SpillBytes > spillBytesMax:
		return o, fmt.Errorf("%w: spill threshold of %d bytes", ErrInvalid, o.SpillBytes)
	case o.SegmentBytes < segmentBytesMin || o.SegmentBytes > segmentBytesDefault:
		return o, fmt.Errorf("%w: segments of %d bytes", ErrInvalid, o.SegmentBytes)
	case o.OpenFilesMax < 0 || o.CheckpointBytes < 0 || o.CommitDelay < 0 || o.ReserveBytes < 0 || o.ReservePercent < 0 || o.ReservePercent > 100,
		o.CompactionRound < 0 || o.ReclaimAge < 0 || o.QuarantineAge < 0 || o.Concurrency < 0 || o.OperationsMax < 0:
		return o, fmt.Errorf("%w: negative option or more than 100 percent", ErrInvalid)
	}
	return o, nil
}
