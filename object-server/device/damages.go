package device

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// DamagesFile is where a device keeps what was found damaged on it; see
// doc/formats/bundle.md. Each line proves itself with a CRC.
const DamagesFile = "damages"

const (
	damagesMax      = 4096    // of which are known at once; more are counted only
	damagesBytesMax = 4 << 20 // of the file, which is then written anew; or twice what it was then
	lostMax         = 64      // names in one damage; more are counted only
)

// The states of a Damage.
const (
	DamageFound    = "found"
	DamageReplaced = "replaced" // by a newer write of the name
	DamageRepaired = "repaired" // the partition was
)

// Damage is something damaged on a device. Only what was found has a place in
// Device.Damages; the other states end it in the file.
type Damage struct {
	Policy    int       `json:"policy"`
	Partition uint32    `json:"partition"`
	First     time.Time `json:"first_seen"`
	State     string    `json:"state"`
	Older     bool      `json:"older,omitempty"` // of an older version of a name
	bundle.Damage
}

// damageKey tells one damage from another.
type damageKey struct {
	policy    int
	partition uint32
	segment   string
	offset    int64
	lsn       uint64
	cause     string // where there is no place
}

func (x *Damage) key() damageKey {
	k := damageKey{x.Policy, x.Partition, x.Segment, x.Offset, x.FirstLSN, ""}
	switch {
	case x.FirstLSN > 0: // the same record may be met in more than one way
		k.segment, k.offset = "", 0
	case x.Segment == "":
		k.cause = x.Cause
	}
	return k
}

// damages is the list of a device. What is added is in memory at once; one
// goroutine writes it down. Once that has failed it does not try again before the
// next start.
type damages struct {
	device *Device
	count  atomic.Int64 // the length of byKey, for callers that must not wait
	more   atomic.Int64 // that are not in it

	mu       sync.Mutex
	byKey    map[damageKey]*Damage // guarded by mu
	hashes   map[format.Hash]bool  // that damages of one record have had; guarded by mu
	unsaved  []Damage              // guarded by mu
	suspects map[Suspect]bool      // guarded by mu
	remains  map[Suspect]bool      // partitions with damaged records that were replaced; guarded by mu
	read     map[Suspect]time.Time // when all of a damaged partition was read for Mend; guarded by mu
	wake     chan struct{}
	stopping chan struct{}
	stopped  chan struct{}
	size     int64 // of the file; the goroutine's, as is what follows
	sizeMax  int64
	isBroken bool
}

func (l *damages) start(d *Device) {
	l.device, l.byKey, l.hashes, l.suspects, l.remains = d, make(map[damageKey]*Damage), make(map[format.Hash]bool), make(map[Suspect]bool), make(map[Suspect]bool)
	l.read = make(map[Suspect]time.Time)
	l.wake, l.stopping, l.stopped = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	l.load()
	go l.run()
}

// stop writes down what is not written yet.
func (l *damages) stop() {
	close(l.stopping)
	<-l.stopped
}

func (l *damages) run() {
	defer close(l.stopped)
	for isLast := false; !isLast; {
		select {
		case <-l.wake:
		case <-l.stopping:
			isLast = true
		}
		l.mu.Lock()
		fresh := l.unsaved
		l.unsaved = nil
		l.mu.Unlock()
		if len(fresh) == 0 || l.isBroken {
			continue
		}
		if err := l.save(fresh); err != nil {
			l.isBroken = true
			l.device.options.Logger.Warn("the list of damages is not written down any more", "device", l.device.root, "error", err)
		}
	}
}

// met notes what Config.Damaged is told of.
func (l *damages) met(err error) {
	var placed *bundle.PlacedError
	if errors.As(err, &placed) {
		l.note(placed.ID, placed.Damage, placed.Older)
	}
}

// note adds a damage unless it is known. It does no I/O.
func (l *damages) note(id bundle.ID, found bundle.Damage, isOlder bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := Damage{Policy: id.Policy, Partition: id.Partition, First: time.Now().UTC(), State: DamageFound, Older: isOlder, Damage: found}
	if more := len(found.Lost) - lostMax; more > 0 {
		x.Lost, x.Unnamed = found.Lost[:lostMax:lostMax], x.Unnamed+uint64(more)
	}
	key := x.key()
	if l.byKey == nil || l.byKey[key] != nil {
		return
	}
	if len(l.byKey) >= damagesMax {
		l.more.Add(1)
		return
	}
	l.byKey[key] = &x
	l.suspects[Suspect{id.Policy, id.Partition}] = true
	l.name(&x)
	l.count.Add(1)
	l.later(x)
}

// name notes whose record is damaged. l.mu is held.
func (l *damages) name(x *Damage) {
	if len(x.Lost) == 1 {
		l.hashes[x.Lost[0].Hash] = true
	}
}

// later queues a line for the file, unless the disk keeps too many waiting. l.mu is
// held.
func (l *damages) later(x Damage) {
	if len(l.unsaved) >= 2*damagesMax {
		return
	}
	l.unsaved = append(l.unsaved, x)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// end ends the damages that are chosen.
func (l *damages) end(state string, isOver func(x *Damage) bool) {
	if l.count.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, x := range l.byKey {
		if isOver(x) {
			delete(l.byKey, key)
			l.count.Add(-1)
			x.State = state
			if state == DamageReplaced {
				l.remains[Suspect{x.Policy, x.Partition}] = true
			}
			l.later(*x)
		}
	}
}

// repaired ends all damages of a partition.
func (l *damages) repaired(id bundle.ID) {
	l.mu.Lock()
	delete(l.remains, Suspect{id.Policy, id.Partition})
	delete(l.read, Suspect{id.Policy, id.Partition})
	l.mu.Unlock()
	l.end(DamageRepaired, func(x *Damage) bool { return x.Policy == id.Policy && x.Partition == id.Partition })
}

// replaced ends the damages of names that have been written anew.
func (l *damages) replaced(id bundle.ID, drafts []*bundle.Draft) {
	if l.count.Load() == 0 {
		return
	}
	for _, draft := range drafts {
		if hash, ok := draft.Replaced(); ok && l.isNamed(hash) {
			l.end(DamageReplaced, func(x *Damage) bool {
				return x.Policy == id.Policy && x.Partition == id.Partition && !x.Older && len(x.Lost) == 1 && x.Lost[0].Hash == hash && x.Unnamed == 0
			})
		}
	}
}

// isNamed tells whether a name may have a damaged record.
func (l *damages) isNamed(hash format.Hash) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	isNamed := l.hashes[hash]
	delete(l.hashes, hash)
	return isNamed
}

// Damages lists what is known to be damaged on the device, the oldest first, and
// tells how many more were met that did not fit into the list.
func (d *Device) Damages() (all []Damage, more int) {
	l := &d.damages
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list(), int(l.more.Load())
}

// list sorts them. l.mu is held.
func (l *damages) list() []Damage {
	all := make([]Damage, 0, len(l.byKey))
	for _, x := range l.byKey {
		all = append(all, *x)
	}
	slices.SortFunc(all, func(x, y Damage) int { return x.First.Compare(y.First) })
	return all
}

// encode is a line of the file: the CRC of the JSON in hexadecimal, a space, the
// JSON.
func (x *Damage) encode() []byte {
	text, err := json.Marshal(x)
	if err != nil { // a name that is no text
		return nil
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, castagnoli), text)
}

// parseDamages reads lines in their order; those that do not prove themselves are
// left out.
func parseDamages(b []byte) map[damageKey]*Damage {
	all := make(map[damageKey]*Damage)
	for line := range bytes.Lines(b) {
		x := &Damage{}
		sum, text, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli)) != string(sum) || json.Unmarshal(text, x) != nil {
			continue
		}
		if delete(all, x.key()); x.State == DamageFound && len(all) < damagesMax {
			all[x.key()] = x
		}
	}
	return all
}

// ReadDamages reads the list of a device, which may be open or not.
func ReadDamages(files vfs.FS, root string) ([]Damage, error) {
	b, err := readDamages(files, root)
	if errors.Is(err, fs.ErrNotExist) {
		return []Damage{}, nil
	}
	l := damages{byKey: parseDamages(b)}
	return l.list(), err
}

func readDamages(files vfs.FS, root string) ([]byte, error) {
	file, err := files.Open(filepath.Join(root, DamagesFile))
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	defer file.Close() // only read from
	size, err := file.Size()
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	b := make([]byte, min(size, 16*damagesBytesMax))
	if n, err := file.ReadAt(b, 0); n < len(b) {
		return b[:n], fmt.Errorf("device: %w", err)
	}
	return b, nil
}

// load takes over what was written down. A file that cannot be read is as none.
func (l *damages) load() {
	b, err := readDamages(l.device.fs, l.device.root)
	if err != nil {
		if l.isBroken = !errors.Is(err, fs.ErrNotExist); l.isBroken {
			l.device.options.Logger.Warn("the list of damages cannot be read", "device", l.device.root, "error", err)
		}
		return
	}
	l.byKey, l.size = parseDamages(b), int64(len(b))
	for _, x := range l.byKey {
		l.name(x)
	}
	l.count.Store(int64(len(l.byKey)))
}

// save appends lines, or writes the file anew where it has grown too long. A crash
// leaves a torn last line, or, while it is written anew, none of it: what is still
// damaged is met again.
func (l *damages) save(fresh []Damage) error {
	var lines []byte
	path := filepath.Join(l.device.root, DamagesFile)
	isNew := l.size == 0
	isFull := l.size > max(damagesBytesMax, l.sizeMax)
	if isFull {
		if err := l.device.fs.Remove(path); err != nil {
			return err
		}
		l.mu.Lock()
		fresh, l.size, isNew = l.list(), 0, true
		l.mu.Unlock()
	}
	for i := range fresh {
		lines = append(lines, fresh[i].encode()...)
	}
	file, err := l.device.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		isNew = true
		file, err = l.device.fs.Create(path)
	}
	if err != nil {
		return err
	}
	if l.size > 0 { // a torn line may be the last
		lines = append([]byte("\n"), lines...)
	}
	err = file.Writev([][]byte{lines}, l.size)
	if err == nil {
		err = file.Datasync()
	}
	if err = errors.Join(err, file.Close()); err == nil && isNew {
		err = l.device.fs.SyncDir(l.device.root)
	}
	if l.size += int64(len(lines)); isFull {
		l.sizeMax = 2 * l.size
	}
	return err
}
