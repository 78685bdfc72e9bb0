package device

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// PartPower says of which part power the partitions of a storage policy are on a
// device: a partition is the first so many bits of a name's hash. Devices that
// were never told have none: where a name lies is then as requests say.
type PartPower struct {
	Power     uint8  // of the partitions below From, of all if Next is 0
	Next      uint8  // Power + 1 while it is being raised, else 0
	Splitting bool   // partitions are being split, from the last to the first
	From      uint64 // partitions of Power from here on have been split
	First     uint8  // what Power was when it was first written down
}

// PowerMax is the highest part power there is.
const PowerMax = 32

// bundle is where a name lies. Partitions of Power are all below From, those of
// Next at 2 * From or above: no number is in use for both.
func (p PartPower) bundle(policy int, hash format.Hash) bundle.ID {
	if partition := hash.Bits(p.Power); !p.hasSplit(partition) {
		return bundle.ID{Policy: policy, Partition: partition, Power: p.tag(p.Power)}
	}
	return bundle.ID{Policy: policy, Partition: hash.Bits(p.Next), Power: p.tag(p.Next)}
}

func (p PartPower) hasSplit(partition uint32) bool { return p.Next != 0 && uint64(partition) >= p.From }

// tag is the power as IDs have it: so those of a device stay as they are when its
// power is first written down.
func (p PartPower) tag(power uint8) uint8 {
	if power == p.First {
		return 0
	}
	return power
}

// Bundle is what the directory of a partition holds; false if it is what a crash
// has left of a split, or no partition at all.
func (p PartPower) Bundle(policy int, partition uint32) (id bundle.ID, ok bool) {
	n := uint64(partition)
	switch {
	case p.Next == 0 && n < 1<<p.Power || p.Next != 0 && n < p.From:
		return bundle.ID{Policy: policy, Partition: partition, Power: p.tag(p.Power)}, true
	case p.Next != 0 && n >= 2*p.From && n < 1<<p.Next:
		return bundle.ID{Policy: policy, Partition: partition, Power: p.tag(p.Next)}, true
	}
	return bundle.ID{}, false
}

// The file that holds it; see doc/formats/bundle.md. Both halves say the same but
// while it is being changed.
//
//	0 magic 4 | version 1 | power 1 | next 1 | first 1 | policy 4 | splitting 1 | reserved 3
//	16 from 8 | change 8 | reserved 28 | CRC 4
const (
	powerSize   = 64
	powerHalf   = 4096
	powerSuffix = ".part-power"
)

var powerMagic = [4]byte{'m', 'r', 'P', 'P'}

func powerPath(root string, policy int) string {
	return filepath.Join(root, bundle.PolicyDirectory(policy)+powerSuffix)
}

func (p PartPower) encode(policy int, change uint64) []byte {
	b := make([]byte, powerSize)
	le := binary.LittleEndian
	copy(b, powerMagic[:])
	b[4], b[5], b[6], b[7] = 1, p.Power, p.Next, p.First
	le.PutUint32(b[8:], uint32(policy))
	if p.Splitting {
		b[12] = 1
	}
	le.PutUint64(b[16:], p.From)
	le.PutUint64(b[24:], change)
	le.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

func parsePartPower(b []byte, policy int) (p PartPower, change uint64, err error) {
	le := binary.LittleEndian
	switch {
	case [4]byte(b) != powerMagic || le.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli):
		return p, 0, fmt.Errorf("%w: checksum", errPowerDamaged)
	case b[4] != 1:
		return p, 0, fmt.Errorf("%w: version %d of the part power", format.ErrUnsupported, b[4])
	}
	p = PartPower{Power: b[5], Next: b[6], First: b[7], Splitting: b[12] == 1, From: le.Uint64(b[16:])}
	if int(le.Uint32(b[8:])) != policy || p.Power > PowerMax || p.Next != 0 && (p.Next != p.Power+1 || p.Next > PowerMax) || p.From > 1<<p.Power {
		return p, 0, fmt.Errorf("%w: it makes no sense", errPowerDamaged)
	}
	return p, le.Uint64(b[24:]), nil
}

var errPowerDamaged = errors.New("the file of the part power is damaged")

// ReadPartPower reads the part power of a policy on a device; false if it was
// never written down.
func ReadPartPower(files vfs.FS, root string, policy int) (p PartPower, ok bool, err error) {
	f, err := openPower(files, root, policy)
	if err != nil || f == nil {
		return p, false, err
	}
	return f.PartPower, true, f.Close()
}

// powerFile is the open file of a part power.
type powerFile struct {
	PartPower
	vfs.File
	policy int
	change uint64 // number of the last one
	isTorn bool   // one half is not as the other
}

// openPower opens the file of a policy; nil if there is none.
func openPower(files vfs.FS, root string, policy int) (*powerFile, error) {
	path := powerPath(root, policy)
	file, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	f := &powerFile{File: file, policy: policy}
	if err := f.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("device: %s: %w", path, err), file.Close())
	}
	return f, nil
}

// read takes the half that was written last. The other one is older, or torn by a
// crash, or damaged: in each case what it said is in this one.
func (f *powerFile) read() error {
	var halves [2][powerSize]byte
	isFound, failed := false, errPowerDamaged
	for i := range halves {
		if n, err := f.ReadAt(halves[i][:], int64(i)*powerHalf); n < powerSize {
			failed = errors.Join(failed, err)
			continue
		}
		p, change, err := parsePartPower(halves[i][:], f.policy)
		if errors.Is(err, format.ErrUnsupported) {
			return err
		}
		if err == nil && (!isFound || change > f.change) {
			f.PartPower, f.change, isFound = p, change, true
		}
	}
	f.isTorn = !bytes.Equal(halves[0][:], halves[1][:])
	if !isFound {
		return failed
	}
	return nil
}

// write puts p into both halves, one after the other, and makes it durable. After
// an error a restart may find either.
func (f *powerFile) write(p PartPower) error {
	f.change++
	b := p.encode(f.policy, f.change)
	for half := range 2 {
		err := f.Writev([][]byte{b}, int64(half)*powerHalf)
		if err == nil {
			err = f.Datasync()
		}
		if err != nil {
			return fmt.Errorf("device: %w", err)
		}
	}
	f.PartPower, f.isTorn = p, false
	return nil
}

// createPower makes the file. It gets its name when all of it is durable.
func createPower(files vfs.FS, root string, policy int, p PartPower) (*powerFile, error) {
	path := powerPath(root, policy)
	temporary := filepath.Join(root, "."+filepath.Base(path)+".tmp")
	if err := files.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("device: %w", err)
	}
	file, err := files.Create(temporary)
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	f := &powerFile{File: file, policy: policy}
	err = f.write(p)
	if err == nil {
		err = files.Link(file, path)
	}
	if err == nil {
		err = files.Remove(temporary)
	}
	if err == nil {
		err = files.SyncDir(root)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("device: %w", err), file.Close())
	}
	return f, nil
}
