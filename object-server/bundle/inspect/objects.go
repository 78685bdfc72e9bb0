package inspect

import (
	"cmp"
	"encoding/hex"
	"errors"
	"slices"

	"martlet/object-server/bundle"
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
func Objects(files *bundle.Files, id bundle.ID, versions bool, use func(*Object) error) error {
	v, entries, segments, err := recovered(files, id)
	if err != nil {
		return err
	}
	defer v.Close()
	for _, e := range newestInOrder(entries, segments) {
		if err := object(v, e.Hash, versions, use); err != nil {
			return err
		}
	}
	return nil
}

// newestInOrder are the newest records of the names that have more than a tombstone, in the order in which they lie.
func newestInOrder(entries []bundle.Found, segments []bundle.Recovered) []bundle.Found {
	names := slices.DeleteFunc(entries, func(e bundle.Found) bool {
		return !e.IsNewest || e.Type == format.TypeTombstone && !e.IsChained()
	})
	slices.SortFunc(names, func(x, y bundle.Found) int {
		return cmp.Or(cmp.Compare(segments[x.Segment].Sequence, segments[y.Segment].Sequence), cmp.Compare(x.Unit, y.Unit))
	})
	return names
}

// object calls use for one name.
func object(v *bundle.View, hash format.Hash, versions bool, use func(*Object) error) error {
	record, buffer, err := v.ReadHead(hash)
	defer func() { buffer.Free() }()
	if errors.Is(err, format.ErrQuarantined) {
		return use(&Object{Hash: hash, Damage: err.Error()})
	}
	if err != nil {
		return err
	}
	switch {
	case !record.Versioned():
		return use(objectOf(record))
	case versions:
		return eachVersion(v, record, use)
	}
	newest, ok := record.Newest()
	if ok && newest.LSN != record.LSN() {
		buffer.Free()
		record, buffer, err = v.ReadVersionHead(hash, newest)
		if errors.Is(err, format.ErrQuarantined) {
			return use(&Object{Hash: hash, Damage: err.Error()})
		}
	}
	if err != nil || !ok || record.Type() == format.TypeTombstone || record.Type() == format.TypeDeleteMarker {
		return err
	}
	return use(objectOf(record))
}

// eachVersion calls use for each live version of a name, newest first.
func eachVersion(v *bundle.View, head *bundle.Record, use func(*Object) error) error {
	name := objectOf(head)
	chain, err := v.Chain(head.Head.Hash, head, nil)
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

// objectOf describes a record whose metadata were read.
func objectOf(r *bundle.Record) *Object {
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
	if r.Doubtful() && o.Damage == "" {
		o.Damage = lostLater
	}
	return o
}
