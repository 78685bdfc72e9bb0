package format

import (
	"bytes"
	"cmp"
)

// Two writes of one name may carry the same timestamp. What counts must not
// depend on which of them came first, or replicas would differ for good. So all
// writes are in one total order; see doc/formats/bundle.md, "Which record counts".
//
// An object has three parts that later writes replace one by one: the data with
// the metadata that a POST keeps, the metadata that a POST replaces, and the
// content type. Each part has an order of its own.

// CompareData orders the data of two objects: by time, then by the bytes that
// describe them. It is zero for the same write.
func (m *Metadata) CompareData(o *Metadata) int {
	if c := m.Timestamp.Compare(o.Timestamp); c != 0 {
		return c
	}
	part := func(m *Metadata) []byte {
		return encoded(&Metadata{Name: m.Name, ETag: m.ETag, Size: m.Size, System: m.System})
	}
	return bytes.Compare(part(m), part(o))
}

// CompareMeta orders the metadata that a POST replaces.
func (m *Metadata) CompareMeta(o *Metadata) int {
	part := func(m *Metadata) []byte { return encoded(&Metadata{User: m.User, DeleteAt: m.DeleteAt}) }
	return m.compareLater(o, m.MetaTimestamp, o.MetaTimestamp, part)
}

// CompareType orders the content types.
func (m *Metadata) CompareType(o *Metadata) int {
	return m.compareLater(o, m.TypeTimestamp, o.TypeTimestamp, func(m *Metadata) []byte { return []byte(m.ContentType) })
}

// compareLater orders a part that may be later than the data. At one time, what
// came with the data wins over a POST, and goes with the data that win.
func (m *Metadata) compareLater(o *Metadata, t, u Timestamp, part func(*Metadata) []byte) int {
	if c := t.Compare(u); c != 0 {
		return c
	}
	isData, isOtherData := t == m.Timestamp, u == o.Timestamp
	switch {
	case isData && isOtherData:
		return cmp.Or(m.CompareData(o), bytes.Compare(part(m), part(o)))
	case isData:
		return 1
	case isOtherData:
		return -1
	}
	return bytes.Compare(part(m), part(o))
}

// MetaYields tells whether a POST, which gives m its metadata and their time, is to
// replace the metadata of m.
func (m *Metadata) MetaYields(posted *Metadata) bool {
	return posted.MetaTimestamp != m.Timestamp && posted.CompareMeta(m) > 0
}

// TypeYields is MetaYields for the content type.
func (m *Metadata) TypeYields(posted *Metadata) bool {
	return posted.TypeTimestamp != m.Timestamp && posted.CompareType(m) > 0
}

// encoded is the part of the metadata that is set; equal parts have equal bytes.
func encoded(m *Metadata) []byte {
	b, err := m.MarshalMsg(nil)
	if err != nil {
		return nil // too many headers: such metadata are in no record
	}
	return b
}
