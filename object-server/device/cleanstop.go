package device

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// castagnoli is the checksum of the files of the clean stop and of damages.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CleanStopFile is where a device that was closed says how far each of its bundles
// goes; see doc/formats/bundle.md.
//
//	0 magic 4 | version 1 | reserved 3 | entries 8 | time 8 | reserved 4 | CRC 4
//	32 then for each bundle: policy 4 | partition 4 | power 1 | reserved 7 | last LSN 8
const CleanStopFile = "clean-stop"

const (
	cleanStopHeader = 32
	cleanStopEntry  = 24
	cleanStopMax    = 1 << 20 // entries; more partitions than a device has
)

var cleanStopMagic = [4]byte{'m', 'r', 'C', 'S'}

// floors has the last LSN of bundles that were not opened since the last stop.
type floors struct {
	mu   sync.Mutex
	byID map[bundle.ID]uint64 // guarded by mu
}

func (f *floors) of(id bundle.ID) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byID[id]
}

// drop forgets a bundle that is open: what it knows is newer.
func (f *floors) drop(id bundle.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byID, id)
}

func encodeCleanStop(all map[bundle.ID]uint64, ticks uint64) []byte {
	ids := slices.SortedFunc(maps.Keys(all), func(x, y bundle.ID) int {
		return cmp.Or(cmp.Compare(x.Policy, y.Policy), cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Power, y.Power))
	})
	ids = ids[:min(len(ids), cleanStopMax)]
	le := binary.LittleEndian
	b := make([]byte, cleanStopHeader, cleanStopHeader+len(ids)*cleanStopEntry)
	copy(b, cleanStopMagic[:])
	b[4] = 1
	le.PutUint64(b[8:], uint64(len(ids)))
	le.PutUint64(b[16:], ticks)
	for _, id := range ids {
		b = le.AppendUint32(b, uint32(id.Policy))
		b = le.AppendUint32(b, id.Partition)
		b = append(b, id.Power, 0, 0, 0, 0, 0, 0, 0)
		b = le.AppendUint64(b, all[id])
	}
	le.PutUint32(b[28:], crc32.Checksum(b, castagnoli)) // of the whole with 0 here
	return b
}

var errCleanStop = errors.New("the file of the clean stop is damaged")

func parseCleanStop(b []byte) (map[bundle.ID]uint64, error) {
	le := binary.LittleEndian
	if len(b) < cleanStopHeader || [4]byte(b) != cleanStopMagic {
		return nil, fmt.Errorf("%w: header", errCleanStop)
	}
	entries, sum := le.Uint64(b[8:]), le.Uint32(b[28:])
	le.PutUint32(b[28:], 0)
	rest := b[cleanStopHeader:]
	if sum != crc32.Checksum(b, castagnoli) || entries > cleanStopMax || entries*cleanStopEntry != uint64(len(rest)) {
		return nil, fmt.Errorf("%w: checksum", errCleanStop)
	}
	if b[4] != 1 {
		return nil, fmt.Errorf("%w: version %d of the clean stop", format.ErrUnsupported, b[4])
	}
	all := make(map[bundle.ID]uint64, entries)
	for ; len(rest) > 0; rest = rest[cleanStopEntry:] {
		id := bundle.ID{Policy: int(le.Uint32(rest)), Partition: le.Uint32(rest[4:]), Power: rest[8]}
		all[id] = le.Uint64(rest[16:])
	}
	return all, nil
}

// ReadCleanStop reads up to which LSN the bundles of a device were acknowledged
// when it was closed. It says nothing of a device that is open or was not closed,
// and nothing where its file is torn or damaged.
func ReadCleanStop(files vfs.FS, root string) (map[bundle.ID]uint64, error) {
	all, err := readCleanStop(files, root)
	if errors.Is(err, errCleanStop) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

func readCleanStop(files vfs.FS, root string) (map[bundle.ID]uint64, error) {
	file, err := files.Open(filepath.Join(root, CleanStopFile))
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	defer file.Close() // only read from
	size, err := file.Size()
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	if size > cleanStopHeader+cleanStopMax*cleanStopEntry {
		return nil, fmt.Errorf("device: %w: %d bytes", errCleanStop, size)
	}
	b := make([]byte, size)
	if n, err := file.ReadAt(b, 0); n < len(b) {
		return nil, fmt.Errorf("device: %w: %w", errCleanStop, err)
	}
	return parseCleanStop(b)
}

// resume takes what the last stop left, and removes it for good before anything
// is written: it must not outlive what it speaks of. A crash after it costs
// that knowledge. A file that cannot be read is as none.
func (d *Device) resume() error {
	all, err := readCleanStop(d.fs, d.root)
	d.floors.byID, d.wasKilled = all, err != nil
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		d.options.Logger.Warn("what the last stop left cannot be used", "device", d.root, "error", err)
	}
	if err := d.removeCleanStop(); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	return nil
}

func (d *Device) removeCleanStop() error {
	err := d.fs.Remove(filepath.Join(d.root, CleanStopFile))
	if err != nil {
		return err
	}
	return d.fs.SyncDir(d.root)
}

// writeCleanStop says how far the bundles go, now that all of them are durable and
// nothing is written any more. What is known of those that were not opened stays
// known. A crash leaves a file that does not prove itself, or none; a full disk
// does without, and so does a device on which something has failed, or of whose
// writes containers may not know.
func (d *Device) writeCleanStop() error {
	if d.Err() != nil || d.failures.Load() > 0 || d.unreported.Load() || d.owesRows.Load() {
		return nil
	}
	all := make(map[bundle.ID]uint64)
	for id, lsn := range d.floors.byID {
		if now, ok := d.bundleIn(id.Policy, id.Partition); ok && now == id {
			all[id] = lsn
		}
	}
	for _, b := range d.bundles.all() {
		if lsn := b.Acknowledged(); lsn > 0 {
			all[b.ID()] = lsn
		}
	}
	if len(all) == 0 {
		return nil
	}
	file, err := d.fs.Create(filepath.Join(d.root, CleanStopFile))
	if err == nil {
		err = file.Writev([][]byte{encodeCleanStop(all, uint64(time.Now().UnixMicro()/10))}, 0)
		if err == nil {
			err = file.Datasync()
		}
		err = errors.Join(err, file.Close())
		if err == nil {
			err = d.fs.SyncDir(d.root)
		}
		if err != nil {
			_ = d.removeCleanStop() // a torn one proves nothing anyway
		}
	}
	if err == nil || errors.Is(err, ErrNoSpace) {
		return nil
	}
	return fmt.Errorf("device: %w", err)
}
