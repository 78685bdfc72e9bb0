package inspect

import (
	"errors"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
)

// Name is a name of a partition. It is valid during the call that it was given to.
type Name struct {
	Head *bundle.Record // its newest record, with metadata but without data

	view *bundle.View
}

// Names calls use for each name of a partition that has more than a tombstone, in the order in which their newest records
// lie. Only headers and metadata are read; the partition may be in use. What is damaged is left out, and counted.
func Names(files *bundle.Files, id bundle.ID, use func(n *Name) error) (damaged int, err error) {
	v, entries, segments, err := recovered(files, id)
	if err != nil {
		return 0, err
	}
	defer v.Close()
	for _, e := range newestInOrder(entries, segments) {
		record, buffer, err := v.ReadHead(e.Hash)
		if err == nil && record != nil && !record.Doubtful() {
			err = use(&Name{record, v})
		} else if err == nil || errors.Is(err, format.ErrQuarantined) {
			damaged, err = damaged+1, nil
		}
		buffer.Free()
		if err != nil {
			return damaged, err
		}
	}
	return damaged, nil
}

// EachVersion calls use for each live version of a name with versions, newest first, until that fails. ErrQuarantined where
// damage hides some.
func (n *Name) EachVersion(use func(v *format.Version) error) error {
	chain, err := n.view.Chain(n.Head.Hash(), n.Head, nil)
	if err != nil {
		return err
	}
	if chain.Incomplete() {
		return format.ErrQuarantined
	}
	return chain.Each(use)
}

// Version reads the metadata of a version that EachVersion has given.
func (n *Name) Version(v *format.Version) (*format.Metadata, error) {
	record, buffer, err := n.view.ReadVersionHead(n.Head.Hash(), format.Reference{LSN: v.LSN, Timestamp: v.Timestamp, ID: v.ID})
	defer func(b *buffers.Buffer) { b.Free() }(buffer)
	if err != nil {
		return nil, err
	}
	return record.Metadata()
}
