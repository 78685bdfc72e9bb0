package bundle

import (
	"cmp"
	"encoding/hex"
	"errors"
	"slices"

	"martlet/object-server/bundle/format"
)

// Object is an object in a partition, or a version of one.
type Object struct {
	Name      string      `json:"name"` // empty: not known
	Hash      format.Hash `json:"hash"`
	Type      string      `json:"type"`
	VersionID string      `json:"version_id"`
	Timestamp string      `json:"timestamp"`
	LSN       uint64      `json:"lsn"`
	Size      uint64      `json:"size"`
	Versions  uint32      `json:"versions"` // of the name, delete markers included
	Damage    string      `json:"damage,omitempty"`
}

// lostData: of a version that counts only what its name has beside it is left.
const lostData = "the data of this version were lost"

// lostLater: a record is good, but may not be the newest of its name.
const lostLater = "records that were written later are lost"

// Objects calls use for each object of a partition that a GET would find, or for
// each version of each name, in the order in which their newest records lie. Only
// headers and metadata are read; the partition may be in use.
func Objects(files *Files, id ID, versions bool, use func(*Object) error) error {
	b, entries, err := recovered(files, id)
	defer b.index.Free()
	if err != nil {
		return err
	}
	var names []found
	for i := range entries {
		if isNewest(entries, i) && (entries[i].IsChained() || entries[i].Type != format.TypeTombstone) {
			names = append(names, entries[i])
		}
	}
	slices.SortFunc(names, func(x, y found) int {
		return cmp.Or(cmp.Compare(x.segment.sequence, y.segment.sequence), cmp.Compare(x.Unit, y.Unit))
	})
	for i := range names {
		if err := b.object(names[i].Hash, versions, use); err != nil {
			return err
		}
	}
	return nil
}

// object calls use for one name.
func (b *Bundle) object(hash format.Hash, versions bool, use func(*Object) error) error {
	record, buffer, err := b.ReadHead(hash)
	defer func() { buffer.Free() }()
	if errors.Is(err, format.ErrQuarantined) {
		return use(&Object{Hash: hash, Damage: err.Error()})
	}
	if err != nil {
		return err
	}
	switch {
	case !record.Versioned():
		return use(record.object())
	case versions:
		return b.versions(record, use)
	}
	newest, ok := record.Newest()
	if ok && newest.LSN != record.LSN() {
		buffer.Free()
		record, buffer, err = b.ReadVersionHead(hash, newest)
		if errors.Is(err, format.ErrQuarantined) {
			return use(&Object{Hash: hash, Damage: err.Error()})
		}
	}
	if err != nil || !ok || record.Type() == format.TypeTombstone || record.Type() == format.TypeDeleteMarker {
		return err
	}
	return use(record.object())
}

// versions calls use for each live version of a name, newest first.
func (b *Bundle) versions(head *Record, use func(*Object) error) error {
	name := head.object()
	chain, err := b.Chain(head.Head.Hash, head, nil)
	if err != nil {
		return err
	}
	err = chain.Each(func(v *format.Version) error {
		o := Object{
			Name: name.Name, Hash: name.Hash, Type: v.Type.String(), VersionID: hex.EncodeToString(v.ID[:]),
			Timestamp: v.Timestamp.String(), LSN: v.LSN, Size: v.Size, Versions: name.Versions,
		}
		if v.Type == format.TypeVersionDirectory {
			o.Damage = lostData
		}
		return use(&o)
	})
	if errors.Is(err, format.ErrQuarantined) {
		return use(&Object{Name: name.Name, Hash: name.Hash, Versions: name.Versions, Damage: err.Error()})
	}
	return err
}

// object describes a record whose metadata were read.
func (r *Record) object() *Object {
	o := &Object{
		Hash: r.Head.Hash, Type: r.Head.Type.String(), VersionID: hex.EncodeToString(r.Head.VersionID[:]),
		Timestamp: r.Head.Timestamp.String(), LSN: r.Head.LSN, Size: r.Head.Size, Versions: r.Head.Versions,
	}
	if m, err := r.Metadata(); err == nil {
		o.Name = m.Name
	} else if len(r.EncodedMetadata) > 0 {
		o.Damage = err.Error()
	}
	if r.Head.Type == format.TypeVersionDirectory {
		o.Damage = lostData
	}
	if r.doubtful && o.Damage == "" {
		o.Damage = lostLater
	}
	return o
}
