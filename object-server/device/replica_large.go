package device

import (
	"errors"
	"fmt"
	"io"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
)

// importLarge stores the objects of SPILL records, each with a flush of its own, as an
// upload does. Where what is stored counts more, the metadata may still be later: the
// round looks at them then.
func (d *Device) importLarge(round []*incoming) error {
	for _, x := range round {
		if x.raw.Large == nil || x.result.Stored || x.result.Err != nil {
			continue
		}
		err := d.importSpill(x)
		var older *OlderError
		switch {
		case err == nil:
			x.result.Stored = true
		case errors.As(err, &older), errors.Is(err, ErrLocked):
		case errors.Is(err, ErrOut), errors.Is(err, ErrClosed), errors.Is(err, ErrNoSpace):
			return err
		default:
			x.result.Err = err
		}
	}
	return nil
}

// importSpill copies a large object, and checks it on its way.
func (d *Device) importSpill(x *incoming) error {
	size := x.record.Size()
	if has, err := x.raw.Large.Size(); err != nil || has < size { // before room is taken for it
		return fmt.Errorf("%w: large file of a peer has %d bytes of %d: %w", ErrInvalid, has, size, errors.Join(err, io.ErrUnexpectedEOF))
	}
	u, err := d.NewUpload(x.at, size)
	if err != nil {
		return err
	}
	defer u.Abort()
	u.ofPeer = true
	buffer := buffers.Get(format.ChunkSize)
	defer buffer.Free()
	for offset := int64(0); offset < size; offset += format.ChunkSize {
		p := buffer.B[:min(format.ChunkSize, size-offset)]
		if n, err := x.raw.Large.ReadAt(p, offset); n < len(p) {
			return fmt.Errorf("%w: large file of a peer: %w", ErrInvalid, errors.Join(err, io.ErrUnexpectedEOF))
		}
		if err := x.record.CheckChunk(int(offset/format.ChunkSize), p); err != nil {
			return fmt.Errorf("%w: large file of a peer: %w", ErrInvalid, err)
		}
		if _, err := u.Write(p); err != nil {
			return err
		}
	}
	m := *x.metadata
	_, err = u.Commit(&m)
	return err
}
