package device

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/device/journal"
	"martlet/object-server/vfs"
)

// Location says where an object belongs.
type Location struct {
	Policy    int
	Partition uint32
	Hash      format.Hash
}

// State is what was stored under a name before a write replaced it. A damaged
// object counts as absent.
type State struct {
	Existed   bool             // a live object was there
	Metadata  *format.Metadata // of that object; nil unless Existed
	Tombstone format.Timestamp // of the last delete; zero if none
	Kept      *format.Metadata // of a null version that is kept, see Options.KeptID; nil if none is
	Marker    bool             // a delete marker that clients see was there, and is replaced or removed
}

// Device is one disk. All methods are safe for concurrent use.
type Device struct {
	fs        vfs.FS
	root      string
	directory vfs.Dir // holds the lock, and reports the errors of syncfs
	options   Options
	files     *bundle.Files
	versions  *versions.Memory
	bundles   bundles
	locks     lockTable
	committer committer
	caretaker caretaker
	compactor compactor
	splitter  splitter
	janitor   janitor
	room      room
	floors    floors
	damages   damages
	synced    synced
	counters  counters

	readLately readLately // parts of large files

	operations limit // all that have entered
	calls      limit // that read or write something of one object
	longCalls  limit // that open a partition or list versions, which may take long on a device in order
	largeCalls limit // that write past the cache, flush, reserve or clone large files, which may take long as well

	gate     sync.RWMutex // read-locked by every operation, so that Close waits for them
	closed   bool         // guarded by gate
	failures atomic.Int32
	out      atomic.Pointer[error]
	isSilent atomic.Bool // it was logged that the disk does not answer

	swiftFiles bool        // set by Open: files of OpenStack Swift are on the device
	wasKilled  bool        // set by Open: the process before has not stopped cleanly
	unreported atomic.Bool // containers may not know the last writes of that process
	unvisited  atomic.Bool // they have not been visited yet
	owesRows   atomic.Bool // containers may not know writes of this one

	mayBeLost atomic.Pointer[func() bool] // rows may be lost that Undelivered has; nil: nothing can tell
}

// Open takes the device over: it must exist, and no other process may have it
// open (vfs.ErrLocked). It flushes the file system once, and reads partitions
// when they are first used.
func Open(files vfs.FS, root string, o Options) (*Device, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	directory, err := files.OpenDir(root)
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	d := &Device{
		fs: files, root: root, directory: directory, options: o,
		files: bundle.NewFiles(files, root, o.OpenFilesMax), versions: versions.NewMemory(o.VersionBytes),
	}
	usage, err := directory.Usage()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("device: %w", err), directory.Close())
	}
	d.files.Floor = d.floor
	d.files.Direct, d.files.Reserve = o.SyncMethod == SyncDirect, usage.Generous
	d.options.SegmentBytes = segmentBytesOf(&usage, o.SegmentBytes)
	d.bundles.open = make(map[bundle.ID]*partition)
	d.operations = newLimit(o.OperationsMax, o.busyAfter, o.stuckAfter)
	d.calls = newLimit(o.Concurrency, o.busyAfter, o.stuckAfter)
	d.longCalls = newLimit(o.Concurrency, o.stuckAfter, o.stuckAfter)
	d.largeCalls = newLimit(o.Concurrency, largeWait*o.stuckAfter, largeWait*o.stuckAfter)
	d.splitter.prepare(d)
	err = d.takeOver()
	if err == nil {
		err = d.splitter.load()
	}
	if err == nil {
		err = d.resume()
	}
	if err == nil {
		err = d.synced.load(d)
	}
	if err != nil {
		return nil, errors.Join(err, d.synced.close(), d.files.Close(), directory.Close())
	}
	if err := d.files.LoadPool(d.recycledBytes(&usage), d.options.SegmentBytes); err != nil {
		return nil, errors.Join(err, d.synced.close(), d.files.Close(), directory.Close())
	}
	d.lookForSwift()
	d.room.directory, d.room.bytes, d.room.percent = directory, o.ReserveBytes, o.ReservePercent
	d.room.log, d.room.scarce = o.Logger.With("device", root), &d.files.Scarce
	if !o.noFloor {
		d.room.floor = floorOf(&usage, d.options.SegmentBytes)
	}
	d.damages.start(d)
	d.committer.start(d)
	d.compactor.start(d)
	d.caretaker.start(d)
	d.splitter.start()
	d.janitor.start(d)
	return d, nil
}

// takeOver locks the device and makes what an earlier process wrote durable,
// before it is read: what that process did not flush, and what only its journal
// holds.
func (d *Device) takeOver() error {
	if err := d.directory.Lock(); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	journals := d.journals()
	newest, err := journals.Replay()
	if err != nil {
		return err
	}
	if err := d.directory.SyncFS(); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	if d.options.SyncMethod != SyncJournal {
		return journals.Remove()
	}
	d.committer.journal, err = journals.Open(newest)
	return err
}

// journals is what a journal of the device needs to know.
func (d *Device) journals() *journal.Config {
	return &journal.Config{
		FS: d.fs, Root: d.root, Files: d.files, Bytes: d.options.JournalBytes, Logger: d.options.Logger,
		Err: d.Err, Failed: d.failed, TakeOut: d.takeOut,
		Flushes: &d.counters.flushes, BytesWritten: &d.counters.bytesWritten,
	}
}

// Close waits for running operations, proves the last batches with a PAD record
// each and all of them with the clean-stop file, and releases the lock. Objects that are still open stay readable.
func (d *Device) Close() error {
	d.gate.Lock()
	defer d.gate.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.janitor.stop()
	d.compactor.stop()
	d.splitter.stop()
	d.caretaker.stop()
	d.committer.stop()
	var err error
	if d.Err() == nil {
		err = d.committer.pad(d.bundles.all())
	}
	if j := d.committer.journal; j != nil {
		err = errors.Join(err, j.Close())
	}
	if err == nil {
		err = d.writeCleanStop()
	}
	d.damages.stop()
	return errors.Join(err, d.synced.close(), d.files.Close(), d.directory.Close())
}

// enter begins an operation; leave must follow unless it fails. A device that does not
// answer gets no more operations: those that it has take threads and memory already.
func (d *Device) enter() error {
	if err := d.answers(); err != nil {
		return err
	}
	if err := d.operations.enter(); err != nil {
		return err
	}
	err := d.enterGate()
	if err != nil {
		d.operations.leave()
	}
	return err
}

// answers returns ErrStuck while the disk does not answer. It logs when that begins and
// ends.
func (d *Device) answers() error {
	err := d.calls.check()
	if isSilent := err != nil; d.isSilent.Load() != isSilent && d.isSilent.Swap(isSilent) != isSilent {
		log := d.options.Logger.With("device", d.root)
		if isSilent {
			log.Error("device does not answer: requests for it are refused with 507 until it does")
		} else {
			log.Warn("device answers again")
		}
	}
	return err
}

func (d *Device) enterGate() error {
	d.gate.RLock()
	err := d.Err()
	if d.closed {
		err = ErrClosed
	}
	if err != nil {
		d.gate.RUnlock()
	}
	return err
}

func (d *Device) leave() {
	d.gate.RUnlock()
	d.operations.leave()
}

// call does what takes the disk for an operation.
func (d *Device) call(do func() error) error { return d.calls.during(do) }

// Err is not nil once the device has been taken out: after a second failed
// flush or write nothing on it is to be trusted until it was closed and opened.
func (d *Device) Err() error {
	if cause := d.out.Load(); cause != nil {
		return *cause
	}
	return nil
}

// writeFailuresMax failed flushes or writes take the device out.
const writeFailuresMax = 2

// failed counts a failure to write or flush. A full disk, a process that has no
// descriptors left, and what was never tried say nothing about the device.
func (d *Device) failed(err error) {
	switch {
	case errors.Is(err, ErrNoSpace), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return
	case errors.Is(err, ErrBusy), errors.Is(err, ErrStuck): // nothing was tried
		return
	}
	if d.failures.Add(1) >= writeFailuresMax {
		d.takeOut(err)
	}
}

// takeOut ends all work with the device.
func (d *Device) takeOut(err error) {
	cause := fmt.Errorf("%w: %w", ErrOut, err)
	d.out.CompareAndSwap(nil, &cause)
}

// Partitions lists the partitions of a storage policy that have a directory.
func (d *Device) Partitions(policy int) ([]uint32, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	return d.partitions(policy)
}

func (d *Device) partitions(policy int) ([]uint32, error) {
	entries, err := d.fs.ReadDir(filepath.Join(d.root, bundle.PolicyDirectory(policy)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	var partitions []uint32
	for _, entry := range entries {
		n, err := strconv.ParseUint(entry.Name(), 10, 32)
		if err == nil && entry.IsDir() && strconv.FormatUint(n, 10) == entry.Name() {
			partitions = append(partitions, uint32(n))
		}
	}
	return partitions, nil
}
