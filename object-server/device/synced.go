package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// SyncedFile is where a device keeps through which positions peers have what it has;
// see doc/formats/replication.md. Each slot of 256 bytes proves itself, and speaks of
// one peer and one partition:
//
//	0 magic 4 | version 1 | length of the peer 1 | reserved 2 | policy 4 | partition 4
//	16 identity of the bundle 16 | LSN 8 | peer 128 | reserved 84 | CRC 4
//
// A free slot is all zeros.
const SyncedFile = "synced"

const (
	syncedSlot = 256     // two in a sector: none is torn
	syncedMax  = 1 << 20 // four for each of 2^18 partitions
	syncedCRC  = syncedSlot - 4

	// PeerMax is the length of a peer's name, in bytes, at most.
	PeerMax = 128
	// PeersMax peers of a partition are remembered.
	PeersMax = 64
)

var syncedMagic = [4]byte{'m', 'r', 'S', 'Y'}

// place is a partition, whatever bundle is there.
type place struct {
	policy    int
	partition uint32
}

func placeOf(id bundle.ID) place { return place{id.Policy, id.Partition} }

// holding says that a peer has all of a bundle up to an LSN.
type holding struct {
	peer string
	bundle.Position
	slot int64
}

// synced is the table of a device. What it says stays true for ever: of a bundle that
// is gone it speaks in vain, and a later position of the same peer says more. So a
// position is written without a flush: a crash leaves it or the one before.
//
// One thing would make it false: a bundle that has lost the end of its log, and gives
// the LSNs of the lost records to others. So what the table says of a bundle is a floor
// of its log, see floor.
type synced struct {
	device  *Device
	writing sync.Mutex // held while the file is written; taken before mu
	file    vfs.File   // guarded by writing; nil before the first slot
	slots   int64      // in the file; guarded by writing
	free    []int64    // guarded by writing

	mu    sync.RWMutex
	peers map[place][]holding // guarded by mu
}

func (h *holding) encode(at place) []byte {
	le := binary.LittleEndian
	b := make([]byte, syncedSlot)
	copy(b, syncedMagic[:])
	b[4], b[5] = 1, byte(len(h.peer))
	le.PutUint32(b[8:], uint32(at.policy))
	le.PutUint32(b[12:], at.partition)
	copy(b[16:], h.Bundle[:])
	le.PutUint64(b[32:], h.LSN)
	copy(b[40:], h.peer)
	le.PutUint32(b[syncedCRC:], crc32.Checksum(b[:syncedCRC], castagnoli))
	return b
}

// parseHolding is the inverse of encode; false if the slot does not prove itself.
func parseHolding(b []byte) (at place, h holding, ok bool) {
	le := binary.LittleEndian
	if [4]byte(b) != syncedMagic || b[4] != 1 || b[5] == 0 || b[5] > PeerMax ||
		le.Uint32(b[syncedCRC:]) != crc32.Checksum(b[:syncedCRC], castagnoli) {
		return at, h, false
	}
	h.peer, h.LSN = string(b[40:40+b[5]]), le.Uint64(b[32:])
	copy(h.Bundle[:], b[16:])
	return place{int(le.Uint32(b[8:])), le.Uint32(b[12:])}, h, true
}

// load reads the table before any bundle is opened. A file that cannot be read, or has
// a slot that does not prove itself, says nothing, and is removed, durably: what is
// overlooked now must not be found later.
func (t *synced) load(d *Device) error {
	t.device, t.peers = d, make(map[place][]holding)
	path := filepath.Join(d.root, SyncedFile)
	var err error
	if t.file, err = d.fs.Open(path); errors.Is(err, fs.ErrNotExist) {
		t.file = nil
		return nil
	}
	if err == nil {
		if err = t.read(); err == nil {
			return nil
		}
		_ = t.file.Close() // only read from
	}
	d.options.Logger.Warn("what peers have of the partitions is not known any more", "device", d.root, "error", err)
	t.file, t.slots, t.free = nil, 0, nil
	clear(t.peers)
	if err = d.fs.Remove(path); err == nil {
		err = d.fs.SyncDir(d.root)
	}
	if err != nil {
		return fmt.Errorf("device: %w", err)
	}
	return nil
}

// syncedPiece is read at once.
const syncedPiece = 256 << 10

func (t *synced) read() error {
	size, err := t.file.Size()
	if err != nil {
		return err
	}
	if t.slots = size / syncedSlot; size%syncedSlot != 0 || t.slots > syncedMax {
		return fmt.Errorf("%s has %d bytes", SyncedFile, size)
	}
	piece := make([]byte, min(size, syncedPiece))
	for from := int64(0); from < size; from += syncedPiece {
		b := piece[:min(syncedPiece, size-from)]
		if n, err := t.file.ReadAt(b, from); n < len(b) {
			return err
		}
		for ; len(b) > 0; b = b[syncedSlot:] {
			slot := (from + int64(len(piece)-len(b))) / syncedSlot
			if err := t.parse(slot, b[:syncedSlot]); err != nil {
				return err
			}
		}
	}
	return nil
}

var freeSlot [syncedSlot]byte

// parse takes one slot.
func (t *synced) parse(slot int64, b []byte) error {
	if [syncedSlot]byte(b) == freeSlot {
		t.free = append(t.free, slot)
		return nil
	}
	at, h, ok := parseHolding(b)
	if !ok || find(t.peers[at], h.peer) >= 0 {
		return fmt.Errorf("slot %d of %s is damaged", slot, SyncedFile)
	}
	h.slot = slot
	t.peers[at] = append(t.peers[at], h)
	return nil
}

func find(known []holding, peer string) int {
	return slices.IndexFunc(known, func(h holding) bool { return h.peer == peer })
}

// take finds a slot that is free. t.writing is held, or t is not shared yet.
func (t *synced) take() (int64, error) {
	if n := len(t.free); n > 0 {
		slot := t.free[n-1]
		t.free = t.free[:n-1]
		return slot, nil
	}
	if t.slots == syncedMax {
		return 0, fmt.Errorf("%w: %d positions of peers are known", ErrNoSpace, t.slots)
	}
	t.slots++
	return t.slots - 1, nil
}

// write fills a slot. t.writing is held, or t is not shared yet.
func (t *synced) write(slot int64, b []byte) error {
	if t.file == nil {
		d := t.device
		file, err := d.fs.Create(filepath.Join(d.root, SyncedFile))
		if err != nil {
			return err
		}
		if err := d.fs.SyncDir(d.root); err != nil {
			return errors.Join(err, file.Close())
		}
		t.file = file
	}
	return t.file.Writev([][]byte{b}, slot*syncedSlot)
}

// of is through where a peer has a bundle; zero if that is not known.
func (t *synced) of(b *bundle.Bundle, peer string) bundle.Position {
	known := t.known(placeOf(b.ID()))
	if i := find(known, peer); i >= 0 && known[i].Bundle == b.Identity() {
		return known[i].Position
	}
	return bundle.Position{}
}

// floor is how far a bundle has gone for certain: what a peer has was durable, and was
// acknowledged. With it a log that has lost its end is damaged, and gives no LSN twice.
func (t *synced) floor(id bundle.ID, identity format.Identity) (lsn uint64) {
	for _, h := range t.known(placeOf(id)) {
		if h.Bundle == identity {
			lsn = max(lsn, h.LSN)
		}
	}
	return lsn
}

// set notes a later position. One of another bundle is replaced for good. After an
// error the file may say either; it is true all the same.
func (t *synced) set(at place, peer string, position bundle.Position) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	known := t.known(at)
	i := find(known, peer)
	next := holding{peer: peer, Position: position}
	isOther := false
	switch {
	case i < 0 && len(known) >= PeersMax:
		return fmt.Errorf("%w: more than %d peers of a partition", ErrInvalid, PeersMax)
	case i < 0:
		slot, err := t.take()
		if err != nil {
			return err
		}
		next.slot = slot
		known = append(slices.Clone(known), next)
	default:
		if isOther = known[i].Bundle != position.Bundle; !isOther && known[i].LSN >= position.LSN {
			return nil
		}
		next.slot, known = known[i].slot, slices.Clone(known)
		known[i] = next
	}
	t.mu.Lock()
	t.peers[at] = known
	t.mu.Unlock()
	err := t.write(next.slot, next.encode(at))
	if err == nil && isOther {
		err = t.file.Datasync()
	}
	if err != nil {
		return fmt.Errorf("device: %w", err)
	}
	return nil
}

// known lists what is known of a partition; the list is not changed any more.
func (t *synced) known(at place) []holding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.peers[at]
}

// keep forgets all peers of a partition but some, for good.
func (t *synced) keep(at place, peers []string) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	var stay, gone []holding
	for _, h := range t.known(at) {
		if slices.Contains(peers, h.peer) {
			stay = append(stay, h)
		} else {
			gone = append(gone, h)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for _, h := range gone {
		if err := t.write(h.slot, freeSlot[:]); err != nil {
			return fmt.Errorf("device: %w", err)
		}
	}
	if err := t.file.Datasync(); err != nil { // what is used again must not come back as it was
		return fmt.Errorf("device: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.peers[at] = stay; len(stay) == 0 {
		delete(t.peers, at)
	}
	for _, h := range gone {
		t.free = append(t.free, h.slot)
	}
	return nil
}

// close makes the table durable, so that a clean stop loses nothing of it.
func (t *synced) close() error {
	if t.file == nil {
		return nil
	}
	var err error
	if t.device.Err() == nil {
		err = t.file.Datasync()
	}
	return errors.Join(err, t.file.Close())
}
