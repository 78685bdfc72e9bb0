package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

const (
	// copyXattr holds a copy of the metadata of a large file; what does not fit
	// into one goes on in the same name with 1, 2, ... behind.
	copyXattr = "user.martlet.metadata"
	// xattrMax bounds one attribute. XFS stores 64 KiB, Btrfs just below 16 KiB;
	// ext4 less than 4 KiB for all of a file's attributes, however they are cut.
	xattrMax = 8 << 10
)

// WriteCopy stores the metadata of a large file beside its bytes, for people and
// tools that look at the file. Where they do not fit nothing is stored, rather
// than a part.
func WriteCopy(file vfs.File, m *format.Metadata) error {
	encoded, err := m.MarshalMsg(nil)
	if err != nil {
		return fmt.Errorf("%w: %w", format.ErrTooLarge, err)
	}
	number := 0
	for piece := range slices.Chunk(encoded, xattrMax) {
		err := file.SetXattr(xattrName(number), piece)
		if errors.Is(err, vfs.ErrNoXattr) {
			number = 0
			break
		}
		if err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
		number++
	}
	for ; err == nil; number++ { // of longer metadata before
		err = file.RemoveXattr(xattrName(number))
	}
	if !errors.Is(err, vfs.ErrNoXattr) {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// ReadCopy returns what WriteCopy has stored; vfs.ErrNoXattr if that is nothing.
func ReadCopy(file vfs.File) ([]byte, error) {
	encoded, err := file.GetXattr(xattrName(0))
	for number := 1; err == nil && len(encoded) < 2*format.MetadataSizeMax; number++ {
		var piece []byte
		piece, err = file.GetXattr(xattrName(number))
		encoded = append(encoded, piece...)
	}
	if errors.Is(err, vfs.ErrNoXattr) && len(encoded) > 0 {
		err = nil
	}
	return encoded, err
}

func xattrName(number int) string {
	if number == 0 {
		return copyXattr
	}
	return copyXattr + strconv.Itoa(number)
}
