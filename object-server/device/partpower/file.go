package partpower

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strings"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// The file that holds it; see doc/formats/bundle.md. Both halves say the same but
// while it is being changed.
//
//	0 magic 4 | version 1 | power 1 | next 1 | first 1 | policy 4 | splitting 1 | reserved 3
//	16 from 8 | change 8 | reserved 28 | CRC 4
const (
	fileSize = 64
	halfSize = 4096
	suffix   = ".part-power"
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	magic = [4]byte{'m', 'r', 'P', 'P'}
)

// TrimSuffix takes the name of such a file apart: the name of the policy's directory
// comes before. False for any other name.
func TrimSuffix(name string) (directory string, ok bool) { return strings.CutSuffix(name, suffix) }

// Path is where the part power of a policy is written down.
func Path(root string, policy int) string {
	return filepath.Join(root, bundle.PolicyDirectory(policy)+suffix)
}

func (p State) encode(policy int, change uint64) []byte {
	b := make([]byte, fileSize)
	le := binary.LittleEndian
	copy(b, magic[:])
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

func parse(b []byte, policy int) (p State, change uint64, err error) {
	le := binary.LittleEndian
	switch {
	case [4]byte(b) != magic || le.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli):
		return p, 0, fmt.Errorf("%w: checksum", ErrDamaged)
	case b[4] != 1:
		return p, 0, fmt.Errorf("%w: version %d of the part power", format.ErrUnsupported, b[4])
	}
	p = State{Power: b[5], Next: b[6], First: b[7], Splitting: b[12] == 1, From: le.Uint64(b[16:])}
	if int(le.Uint32(b[8:])) != policy || p.Power > Max || p.Next != 0 && (p.Next != p.Power+1 || p.Next > Max) || p.From > 1<<p.Power {
		return p, 0, fmt.Errorf("%w: it makes no sense", ErrDamaged)
	}
	return p, le.Uint64(b[24:]), nil
}

// ErrDamaged says that neither half of the file can be used.
var ErrDamaged = errors.New("the file of the part power is damaged")

// Read reads the part power of a policy on a device; false if it was never written
// down.
func Read(files vfs.FS, root string, policy int) (p State, ok bool, err error) {
	f, err := Open(files, root, policy)
	if err != nil || f == nil {
		return p, false, err
	}
	return f.State, true, f.Close()
}

// File is the open file of a part power. One goroutine at a time may use it.
type File struct {
	State  // as last read or written
	file   vfs.File
	policy int
	change uint64 // number of the last one
	isTorn bool   // one half is not as the other
}

// Open opens the file of a policy; nil if there is none. It changes nothing.
func Open(files vfs.FS, root string, policy int) (*File, error) {
	path := Path(root, policy)
	file, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("partpower: %w", err)
	}
	f := &File{file: file, policy: policy}
	if err := f.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("partpower: %s: %w", path, err), file.Close())
	}
	return f, nil
}

// read takes the half that was written last. The other one is older, or torn by a
// crash, or damaged: in each case what it said is in this one.
func (f *File) read() error {
	var halves [2][fileSize]byte
	isFound, failed := false, ErrDamaged
	for i := range halves {
		if n, err := f.file.ReadAt(halves[i][:], int64(i)*halfSize); n < fileSize {
			failed = errors.Join(failed, err)
			continue
		}
		p, change, err := parse(halves[i][:], f.policy)
		if errors.Is(err, format.ErrUnsupported) {
			return err
		}
		if err == nil && (!isFound || change > f.change) {
			f.State, f.change, isFound = p, change, true
		}
	}
	f.isTorn = !bytes.Equal(halves[0][:], halves[1][:])
	if !isFound {
		return failed
	}
	return nil
}

// Mend writes both halves again where they differ, or the next damage would take the
// older one.
func (f *File) Mend() error {
	if !f.isTorn {
		return nil
	}
	return f.Write(f.State)
}

// Close ends the use of the file. All that was written is durable.
func (f *File) Close() error { return f.file.Close() }

// Write puts p into both halves, one after the other, and makes it durable. After
// an error a restart may find either.
func (f *File) Write(p State) error {
	f.change++
	b := p.encode(f.policy, f.change)
	for half := range 2 {
		err := f.file.Writev([][]byte{b}, int64(half)*halfSize)
		if err == nil {
			err = f.file.Datasync()
		}
		if err != nil {
			return fmt.Errorf("partpower: %w", err)
		}
	}
	f.State, f.isTorn = p, false
	return nil
}

// Create makes the file. It gets its name when all of it is durable.
func Create(files vfs.FS, root string, policy int, p State) (*File, error) {
	path := Path(root, policy)
	temporary := filepath.Join(root, "."+filepath.Base(path)+".tmp")
	if err := files.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("partpower: %w", err)
	}
	file, err := files.Create(temporary)
	if err != nil {
		return nil, fmt.Errorf("partpower: %w", err)
	}
	f := &File{file: file, policy: policy}
	err = f.Write(p)
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
		return nil, errors.Join(fmt.Errorf("partpower: %w", err), file.Close())
	}
	return f, nil
}
